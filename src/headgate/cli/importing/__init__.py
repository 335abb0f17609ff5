"""`headgate import`: report what Headgate would serve of existing objects, and how, without serving.

`sources` reads objects from files or a cluster, `taking` converts and validates each, `serving` translates
the valid ones as a gateway does, and `rendering` and `writing` hand on the result.
"""
