"""Decides when a request may be sent.

`limits` checks the route's token limit, `queue` picks the next queued request, and `capacity` says whether
the pool can take one more. All of it is pure: time and randomness are arguments, and nothing here waits.
"""
