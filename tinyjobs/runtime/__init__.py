"""Floor 2: what runs for long. The worker is the only thing that touches both a store and an executor."""
