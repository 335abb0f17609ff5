"""One request's life: its pool, its turn, its endpoint, what is done when that fails, and its account.

Is given what a client asks for and what happens meanwhile; hands on what is to be done next. `queueing` has
the queue of a pool, which says whose turn it is. Pure: nothing here reads a clock, sends a byte or waits, so
that gateway, picker and simulator decide alike.
"""
