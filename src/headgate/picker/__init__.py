"""The endpoint picker: a server of Envoy's external processing protocol, in front of InferencePools.

Given the objects of an API server and the messages of proxies, it tells the proxy which endpoint serves each
request, and learns from the response. It makes the gateway's decisions: both drive the state machine of
`requests`.
"""

from headgate.picker.settings import PickerSettings

__all__ = ["PickerSettings"]
