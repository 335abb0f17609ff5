"""Reads what authenticates clients, and builds the gate that admits them.

Input: settings, files, Secrets, Tenants, and the key sets of token issuers. Output: a gate of
`headgate.auth`, and the limits and shares of tenants for other rooms.
"""
