"""The example project: its demo in processes of its own, and its own tests."""
