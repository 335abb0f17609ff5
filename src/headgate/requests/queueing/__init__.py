"""The queue of a pool: which requests wait until the pool has capacity, and what each of them is told.

Decisions only, like the rest of `requests`. `PoolQueue` is given the time with each call, and a `QueueShell`
that wakes it and reads what requests ask for: the gateway does that on its event loop, the simulator in
virtual time.
"""
