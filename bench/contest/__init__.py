"""Routers compete on a trace: the same requests, replicas and clock for each, in virtual time.

`replicas` are the engines of first order, `replay` brings the requests of a trace to them through
`headgate.scheduling.pick`, `capacity` finds the rate that a policy can carry, `policies` are the competitors.
"""
