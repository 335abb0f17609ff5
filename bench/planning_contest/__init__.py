"""What plans are compared with: a simulation that knows nothing of the queueing model, and the reference."""
