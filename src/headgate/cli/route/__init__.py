"""`headgate route`: asking where a request would go, without sending it.

Is given a request and a place that knows the objects (an API server, manifests, a running gateway); hands on
the gateway's own explanation, for people or as JSON.
"""
