"""The dashboard: what a gateway does now, as web pages for people.

It is given what the workers of a gateway tell (`Workers`), and hands on HTML: the fleet, requests, routes,
queues and models. It only shows; nothing can be changed here.
"""

from headgate.dashboard.app import application
from headgate.dashboard.models import Objects
from headgate.dashboard.signing_in import SIGN_IN, SIGN_OUT, SignIn
from headgate.dashboard.sources import Told, Workers

__all__ = ["SIGN_IN", "SIGN_OUT", "Objects", "SignIn", "Told", "Workers", "application"]
