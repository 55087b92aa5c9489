"""Pages for monitoring, as probes and people ask them."""
