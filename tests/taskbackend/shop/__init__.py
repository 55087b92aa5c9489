"""A small app whose tasks and rows the tests use."""
