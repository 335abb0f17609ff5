"""The life of one request: routing, queueing, picking an endpoint, retries, and its account.

Input: a client's request and the events that follow. Output: the effects that a shell performs next.
`queueing` has the queue of a pool. Pure: nothing here reads a clock, sends a byte or waits, so gateway,
picker and simulator make the same decisions.
"""
