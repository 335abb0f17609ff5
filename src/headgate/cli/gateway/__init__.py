"""`headgate gateway`: turn flags and the configuration file into settings, and supervise the gateway's
processes.

Reads arguments, environment and file; passes settings to the gateway, or reports every error with its line
and a fix.
"""

from headgate.cli.gateway.command import gateway

__all__ = ["gateway"]
