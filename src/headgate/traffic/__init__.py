"""Traffic: the requests that clients send, and when, without their text.

`traces` reads published traces, and `workloads` generates requests from parameters. Both return timed
requests in order of arrival, for the simulator, which serves them in virtual time, and for the load
generator, which sends them. Pure.
"""
