"""The example's settings and URLs."""
