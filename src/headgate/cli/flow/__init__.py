"""`headgate flow`: show queued requests of each pool, and why they wait.

Reads the queues of every worker of a running gateway and merges them into one view of each pool, printed as
text or JSON, once or repeatedly.
"""
