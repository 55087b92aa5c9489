"""Settings and URLs of the documentation's project."""
