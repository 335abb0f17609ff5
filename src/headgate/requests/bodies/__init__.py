"""Reads and changes request bodies: the model, the prompt, and a few options."""
