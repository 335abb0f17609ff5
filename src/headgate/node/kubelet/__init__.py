"""The API of a node, over HTTPS, by which an API server reaches its Pods: logs, exec and port-forward.

Callers have a client certificate or a token that the API server knows, and need a right on this node. There
is no anonymous access.
"""

from headgate.node.kubelet.answers import Answers
from headgate.node.kubelet.certificates import Certificates, TlsFiles
from headgate.node.kubelet.reviews import Reviews
from headgate.node.kubelet.server import Server

__all__ = ["Answers", "Certificates", "Reviews", "Server", "TlsFiles"]
