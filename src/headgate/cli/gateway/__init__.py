"""`headgate gateway`: its flags and file become settings, and its processes are started and looked after.

Is given words and a configuration file by a person; hands settings to the gateway, or every error of them
with its line and what would be right.
"""

from headgate.cli.gateway.command import gateway

__all__ = ["gateway"]
