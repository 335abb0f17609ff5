"""`headgate autoscale`: try out policies, and explain what they decide."""
