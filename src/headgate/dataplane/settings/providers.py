"""Section about external providers."""

from __future__ import annotations

from typing import Annotated

from headgate.dataplane.settings.section import Section, setting


class Providers(Section, frozen=True):
    """External providers, which may take over requests whose own models cannot serve them. Without the file,
    no request leaves for one, whatever the annotations of objects say."""

    file: Annotated[
        str | None,
        setting(
            "YAML file of the providers that `headgate.dev/fallback` may name: URL, API, models and key of "
            "each. Changes act at once."
        ),
    ] = None
