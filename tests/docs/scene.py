"""Sets the scene for a page about a Django project: Django is up and the tables are there."""

import os


def begin() -> None:
    """Load the project in the current directory and migrate its database."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
