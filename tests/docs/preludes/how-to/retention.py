"""A project with its tables made. Django comes up when the page has changed the settings."""

import os

from tests.docs.session import run_command

run_command("python manage.py migrate -v0")


def before_code():
    os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
    import django

    django.setup()
