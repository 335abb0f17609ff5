"""`headgate autoscale`: why a binding has as many replicas as it has, from its status."""
