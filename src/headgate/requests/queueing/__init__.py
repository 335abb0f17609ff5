"""The queue of a pool: which requests wait for capacity, and the errors of those that are dropped.

Decisions only, like the rest of `requests`. Each call passes the time to `PoolQueue`. A `QueueShell` wakes it
and reads the hints of requests: in the gateway on its event loop, in the simulator in virtual time.
"""
