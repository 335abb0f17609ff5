"""`headgate key`: make, list, rotate and revoke the API keys of a gateway."""
