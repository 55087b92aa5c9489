"""The project that the README takes for granted: one that `startproject` and `startapp` have made."""

from tests.docs.session import run_command

run_command("django-admin startproject mysite .")
run_command("python manage.py startapp shop")
