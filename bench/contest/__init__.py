"""Routers compete on a trace: the same requests, replicas and clock for each, in virtual time.

`replicas` are first-order engines, `replay` sends the requests of a trace to them through
`headgate.scheduling.pick`, `capacity` finds the highest rate that a policy sustains, `policies` are the
competitors.
"""
