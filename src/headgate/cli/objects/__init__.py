"""apply, get, describe and delete: the verbs on objects, for those without kubectl.

Is given words by a person and manifests with their places; asks an API server, the machine's own or a
cluster's, and prints what it says in the forms that kubectl prints.
"""
