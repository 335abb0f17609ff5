"""Who a client is, and what it may do.

Decides whether a request is admitted, from its headers and its client certificate, and as which tenant.
Input: API keys, tenants, the public keys of token issuers, and the time. Output: an Identity, or a Denial.
Pure: files, Secrets and key sets are read by `headgate.dataplane.credentials`.
"""
