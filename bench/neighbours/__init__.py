"""The contest of queues: tenants that keep to their share, and one that does not."""
