"""Structural schemas, CEL rules, quantities and durations, as any Kubernetes-style API server needs them.

Input: schemas and plain objects. Output: the objects pruned and defaulted, or all errors at once. It knows no
kind and imports nothing else of Headgate.
"""
