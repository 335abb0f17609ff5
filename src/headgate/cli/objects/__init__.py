"""apply, get, describe and delete: manage objects without kubectl.

Takes arguments and manifests with their positions; sends requests to the API server of this machine or of a
cluster, and prints the results in kubectl's formats.
"""
