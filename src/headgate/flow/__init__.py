"""When a request may go.

Given a request and what is in force for its route and its pool, `limits` says whether the route's token limit
has room for it, `queue` who of those that wait goes next, and `capacity` whether the pool has room for one
more. All of it is pure: time and randomness are arguments, and nothing here waits.
"""
