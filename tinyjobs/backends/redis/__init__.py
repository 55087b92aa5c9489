"""The Redis store. Its driver is imported by the modules that make and understand connections alone."""
