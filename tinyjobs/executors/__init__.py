"""Floor 1, beside the stores: how a function is run.

An executor is handed calls and tells how each ended. It never knows how a job is stored, claimed or recorded.
"""
