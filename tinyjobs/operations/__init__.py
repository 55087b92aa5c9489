"""What watches over the engine: checks, proofs, figures for monitoring, log formatters, traces. Knows no Django."""
