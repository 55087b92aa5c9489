"""What type checkers make of a project's own code: examples that must pass, and lines that must not."""
