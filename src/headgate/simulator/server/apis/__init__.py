"""A file for each API: what its bodies mean, and how its answers are written."""
