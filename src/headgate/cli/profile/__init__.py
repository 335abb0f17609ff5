"""`headgate profile`: measure the numbers that plans need of an engine."""
