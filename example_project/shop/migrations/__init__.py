"""The shop's tables, and a few products to begin with."""
