"""Decides about requests: the pool that serves one, and the body that the endpoint gets.

Pure, except that a weighted split advances: nothing is sent, and nothing waits.
"""
