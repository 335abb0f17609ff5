"""The contest of routers over HTTP: the requests, the engines, and the responses that clients got."""
