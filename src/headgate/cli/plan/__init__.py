"""`headgate plan`: which hardware, and how many replicas."""
