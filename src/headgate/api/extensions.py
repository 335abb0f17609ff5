"""CustomResourceDefinition, apiextensions.k8s.io/v1: how a kind describes itself to an API server.

The embedded API server registers every kind in this form, including the built-in ones.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import field

from headgate.api.meta import Condition, ObjectMeta, Part, Resource, described

_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class Names(Part, frozen=True, kw_only=True):
    kind: Annotated[str, described("Name of the kind in CamelCase.")]
    plural: Annotated[str, described("Name of the collection in URLs.")]
    singular: Annotated[str, described("Name of one object on the command line.")] = ""
    list_kind: Annotated[str, described("Kind of a list of them.")] = ""
    short_names: Annotated[list[str], described("Abbreviations on the command line.")] = []
    categories: Annotated[list[str], described("Groups of kinds, such as all.")] = []


class PrinterColumn(Part, frozen=True, kw_only=True):
    name: Annotated[str, described("Heading of the column.")]
    type: Annotated[str, described("string, integer, number, boolean or date.")]
    json_path: Annotated[str, described("Where in the object the value is.")] = field(name="jsonPath")
    description: Annotated[str, described("What the column shows.")] = ""
    format: Annotated[str, described("Format of the type.")] = ""
    priority: Annotated[int, described("0 is always shown, more only in wide output.")] = 0


class ScaleSubresource(Part, frozen=True, kw_only=True):
    spec_replicas_path: Annotated[str, described("Where the wanted number is.")]
    status_replicas_path: Annotated[str, described("Where the observed number is.")]
    label_selector_path: Annotated[str | None, described("Where the selector of the Pods is, as text.")] = (
        None
    )


class Subresources(Part, frozen=True, kw_only=True):
    status: Annotated[dict[str, Any] | None, described("The status is written apart.", **_ANYTHING)] = None
    scale: Annotated[ScaleSubresource | None, described("The kind can be scaled.")] = None


class Validation(Part, frozen=True, kw_only=True):
    open_api_v3_schema: Annotated[dict[str, Any], described("The structural schema.", **_ANYTHING)] = field(
        default_factory=dict, name="openAPIV3Schema"
    )


class DefinitionVersion(Part, frozen=True, kw_only=True):
    name: Annotated[str, described("Name of the version.")]
    served: Annotated[bool, described("Whether the version is offered.")]
    storage: Annotated[bool, described("Whether objects are stored in this version.")]
    schema: Annotated[Validation, described("What objects look like.")] = Validation()
    subresources: Annotated[Subresources, described("What is written apart.")] = Subresources()
    additional_printer_columns: Annotated[
        list[PrinterColumn], described("Columns that kubectl get shows.")
    ] = []


class DefinitionSpec(Part, frozen=True, kw_only=True):
    group: Annotated[str, described("API group of the kind.")]
    names: Annotated[Names, described("What the kind is called.")]
    scope: Annotated[Literal["Namespaced", "Cluster"], described("Whether objects live in namespaces.")]
    versions: Annotated[list[DefinitionVersion], described("Versions of the kind.")]
    preserve_unknown_fields: Annotated[bool, described("Must be false.")] = False


class DefinitionStatus(Part, frozen=True, kw_only=True):
    conditions: Annotated[list[Condition], described("Established, NamesAccepted.")] = []
    accepted_names: Annotated[Names | None, described("Names in use.")] = None
    stored_versions: Annotated[list[str], described("Versions that objects were ever stored in.")] = []


class CustomResourceDefinition(Part, frozen=True, kw_only=True):
    """CustomResourceDefinition adds a kind to the API server."""

    resource: ClassVar[Resource] = Resource(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        namespaced=False,
    )

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[DefinitionSpec, described("What the kind is.")]
    status: Annotated[DefinitionStatus | None, described("What is observed.")] = None
