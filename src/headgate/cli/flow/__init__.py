"""`headgate flow`: who waits for a pool, and why.

Is given what each worker of a running gateway tells of its queues; hands on one view of each pool, for people
or as JSON, once or again and again.
"""
