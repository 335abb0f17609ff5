"""Changes of response bodies as they pass: the client's name of the model, and events with token counts.

Everything else passes unchanged, however the body is split into pieces.
"""
