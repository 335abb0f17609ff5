"""TLS to clients: certificates, the choice among them, handshakes, and the names in clients' certificates.

Input: certificates of files and Secrets, and accepted connections. Output: secured transports, each with the
protocol that client and gateway have agreed on.
"""

from headgate.gateway.tls.certificates import CertificateError, Loaded, Pair, load
from headgate.gateway.tls.contexts import Policy, ServerNames

__all__ = ["CertificateError", "Loaded", "Pair", "Policy", "ServerNames", "load"]
