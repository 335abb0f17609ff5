"""The embedded API server: Kubernetes' API for one machine, on one SQLite file.

Decides whether a write is taken, in Kubernetes' words, and in which order everybody sees it. It is given
kinds as CustomResourceDefinitions and objects over HTTPS; it hands on lists, watches and tables, so that
`kubectl`, the controllers and the gateway find here what they find in a cluster.
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
