"""`headgate serve`: from the URI of a model, or a directory, to a Model that answers.

`flags` converts the flags of an engine, `sources` checks URIs and finds local directories, `building` writes
the Model, `following` waits until it answers, and `command` is the command line.
"""
