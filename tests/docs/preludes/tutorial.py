"""The tutorial makes its project on the page; the reader's first Python is typed into `manage.py shell`."""

import os


def before_code():
    """What the shell does before it shows a prompt."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
    import django

    django.setup()
