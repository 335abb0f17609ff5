"""`headgate bench`: send load to a gateway or an engine, and print what clients experience."""
