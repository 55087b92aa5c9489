"""Broken variants of a real store, and that whatever is to find such faults does find them."""
