"""The `django.tasks` face of the engine: a task backend, its task class, and what runs around a Django project's jobs.

The only rooms of the package, with the models and the admin, that may import Django.
"""
