"""Headgate: control plane and gateway for LLM inference."""
