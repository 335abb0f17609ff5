"""HTTP: decides how a request is read and an answer is written, and nothing about objects."""
