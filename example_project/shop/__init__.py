"""A small shop: what a project that uses tinyjobs looks like."""
