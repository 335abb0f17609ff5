"""What any server needs that behaves like Kubernetes: structural schemas, CEL rules, quantities, durations.

It is given schemas and plain objects, and hands on the objects pruned and defaulted, or every error at once.
It knows no kind and imports nothing of Headgate.
"""
