"""The objects of a gateway without an API server: made from URLs of engines, and read from files.

Input: what an operator wrote (`--endpoint`, `--objects`). Output: the objects that an API server would have
(ModelServers, ModelRoutes, Pods), kept current as engines, DNS records and files change, and what is wrong
with each source. It routes nothing: gateways treat these objects like those of a cluster.
"""
