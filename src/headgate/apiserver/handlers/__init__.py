"""HTTP: parses requests and writes responses; makes no decisions about objects."""
