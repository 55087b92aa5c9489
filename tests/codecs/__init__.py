"""Arguments and results as bytes and back; errors as text that every store takes."""
