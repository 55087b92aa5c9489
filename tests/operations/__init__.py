"""Tests of what watches over the engine: checks, metrics, logs, traces."""
