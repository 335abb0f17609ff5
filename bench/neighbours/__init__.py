"""The contest of queues: tenants that keep to their share beside one that does not."""
