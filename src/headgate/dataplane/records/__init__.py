"""What is recorded of every request once it is settled: metrics, and one line of access log."""
