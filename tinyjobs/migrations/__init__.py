"""Migrations: number n runs the store's own schema file n, so that the tables have one description."""
