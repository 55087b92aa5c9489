"""Tests of what runs for long: the worker and its parts, and the drain."""
