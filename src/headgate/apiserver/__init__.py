"""The embedded API server: the Kubernetes API for one machine, stored in one SQLite file.

Decides whether a write is accepted, with Kubernetes' error messages, and in which order clients see it. Kinds
are defined by CustomResourceDefinitions, objects arrive over HTTPS; clients get lists, watches and tables, so
that `kubectl`, the controllers and the gateway work as with a cluster.
"""

from headgate.apiserver.parts import Config
from headgate.apiserver.pki import write_kubeconfig_for
from headgate.apiserver.server import Running, running, serve
from headgate.apiserver.storage import NoSpaceError, StateError, StateInUseError
from headgate.apiserver.users import Role, TokenError, Tokens

__all__ = [
    "Config",
    "NoSpaceError",
    "Role",
    "Running",
    "StateError",
    "StateInUseError",
    "TokenError",
    "Tokens",
    "running",
    "serve",
    "write_kubeconfig_for",
]
