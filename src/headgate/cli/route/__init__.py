"""`headgate route`: explain where a request would go, without sending it.

Takes a request and a source of objects (API server, manifests or a running gateway); prints the gateway's
explanation as text or JSON.
"""
