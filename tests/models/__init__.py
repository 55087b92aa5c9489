"""One model of what a store must be, and every store held against it, verb by verb."""
