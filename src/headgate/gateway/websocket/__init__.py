"""WebSockets, such as those of the realtime API: each is one request to the pool of its model, and in flight
until it ends.

Given an opening request from the listener, it checks and authorizes it as any request, and hands on every
byte of both sides as it came, at the pace of the slower one.
"""
