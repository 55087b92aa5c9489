"""A project whose only use of tinyjobs is by way of Redis, and that has none of our tables."""

import pytest

from tests.taskbackend.projects import Project

pytestmark = pytest.mark.redis

SETTINGS = """
INSTALLED_APPS += ["django.contrib." + name for name in ("admin", "auth", "contenttypes", "messages", "sessions")]
ROOT_URLCONF = "settings"
ALLOWED_HOSTS = ["*"]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]


def __getattr__(name):
    if name == "urlpatterns":
        from django.contrib import admin
        from django.urls import path

        return [path("admin/", admin.site.urls)]
    raise AttributeError(name)
"""
ASK = """
import django
django.setup()
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from club.tasks import double

ours = [name for name in connection.introspection.table_names() if name.startswith("tinyjobs")]
with connection.cursor() as cursor:
    for name in ours:
        cursor.execute(f"DROP TABLE {name}")
assert len(ours) > 3
client = Client()
client.force_login(User.objects.create_superuser("admin"))
ours = ("", "job/", "schedule/", "queues/", "workers/", "api/overview/")
for page in ("/admin/", "/admin/auth/user/", *(f"/admin/tinyjobs/{name}" for name in ours)):
    print(page, client.get(page).status_code)
print(double.enqueue(21).id)
"""


def test_without_our_tables_everything_works(tmp_path, redis_url):
    project = Project(tmp_path, f"sqlite:///{tmp_path}/club.sqlite3", jobs=redis_url, settings=SETTINGS)
    try:
        with (tmp_path / "club" / "tasks.py").open("a") as file:
            file.write("\n\n@task\ndef double(number):\n    return 2 * number\n")
        assert "no issues" in project.manage("check")
        assert "no issues" in project.manage("check", "--database", "default")
        assert "No changes" in project.manage("makemigrations", "--check", "--dry-run")
        *pages, job_id = project.run_python("-c", ASK).splitlines()
        assert len(pages) == 8 and all(page.endswith(" 200") for page in pages), pages
        project.manage("tinyjobs", "worker", "--until-empty")
        assert (project.app.get(job_id).status, project.app.get(job_id).record.result) == ("success", b"42")
        assert "success" in project.manage("tinyjobs", "jobs", "list")
    finally:
        project.close()
