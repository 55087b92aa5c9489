"""The dashboard in the admin, by Django's test client: every page, action and right, and what rows may hold."""
