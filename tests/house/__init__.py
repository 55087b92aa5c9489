"""Tests of the house itself: where things may stand, what they may import, how they are named."""
