"""Floor 1: where jobs are kept.

A store knows rows, leases and claims; it never knows how a function is run. Third-party stores plug in here.
"""
