"""The management commands."""
