"""What the processes of the data path have in common: the gateway, and the endpoint picker.

Given objects, settings and an event loop, it drives the decisions of `requests`: it follows objects, queues
requests on the loop, reads large bodies in threads, and changes responses on their way. It has no listener of
its own.
"""
