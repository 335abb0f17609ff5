"""Decides where requests of the Gateway API go: listeners, HTTPRoutes, their backends and filters.

Input: Gateways of Headgate's class, HTTPRoutes, and the objects that they refer to. Output: entry points, by
which gateways serve requests, and the faults of each object, from which controllers write statuses.
"""

from headgate.routing.gateway_api import faults
from headgate.routing.gateway_api.attachment import Attached, Attachment
from headgate.routing.gateway_api.backends import Backend, InvalidBackend, ServicePort
from headgate.routing.gateway_api.certificates import Certificate
from headgate.routing.gateway_api.entry_list import Entry, EntryList, EntryRule
from headgate.routing.gateway_api.entry_points import (
    NO_ENTRY_POINTS,
    EntryPoints,
    Port,
    VirtualHost,
)
from headgate.routing.gateway_api.explain import (
    Absence,
    BackendReading,
    EntryReading,
    ListenerReading,
    Reading,
    explain,
)
from headgate.routing.gateway_api.faults import Fault
from headgate.routing.gateway_api.filters import Filters, HeaderChange, Mirror, PathChange, Redirect, Rewrite
from headgate.routing.gateway_api.hostnames import HostTable
from headgate.routing.gateway_api.listeners import ListenerState, Place, named_secrets
from headgate.routing.gateway_api.matches import Match, RequestHead
from headgate.routing.gateway_api.rules import HTTP_ROUTE, Rules
from headgate.routing.gateway_api.services import ServiceEndpoints, service_of_slice
from headgate.routing.gateway_api.translate import (
    GatewayState,
    Objects,
    RouteState,
    Settings,
    Translation,
    Translator,
    endpoints_of,
    picker_of,
)

__all__ = [
    "HTTP_ROUTE",
    "NO_ENTRY_POINTS",
    "Absence",
    "Attached",
    "Attachment",
    "Backend",
    "BackendReading",
    "Certificate",
    "Entry",
    "EntryList",
    "EntryPoints",
    "EntryReading",
    "EntryRule",
    "Fault",
    "Filters",
    "GatewayState",
    "HeaderChange",
    "HostTable",
    "InvalidBackend",
    "ListenerReading",
    "ListenerState",
    "Match",
    "Mirror",
    "Objects",
    "PathChange",
    "Place",
    "Port",
    "Reading",
    "Redirect",
    "RequestHead",
    "Rewrite",
    "RouteState",
    "Rules",
    "ServiceEndpoints",
    "ServicePort",
    "Settings",
    "Translation",
    "Translator",
    "VirtualHost",
    "endpoints_of",
    "explain",
    "faults",
    "named_secrets",
    "picker_of",
    "service_of_slice",
]
