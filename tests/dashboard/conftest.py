"""People with rights, and what they do with a page."""

import pytest
from django.contrib.auth.models import Permission, User
from django.tasks import task_backends
from django.test import Client

from tinyjobs.core.inline import finish
from tinyjobs.dashboard import deadlines


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """On a loaded machine a page may take long, and still be right."""
    monkeypatch.setattr(deadlines, "BUDGET", 120.0)


@pytest.fixture
def admin(db):
    """A browser in which a superuser is logged in."""
    return client_of(User.objects.create_superuser("root"))


@pytest.fixture
def staff(db):
    """Call it with names of permissions: a browser in which somebody with these is logged in."""

    def enter(*permissions):
        user = User.objects.create_user(f"staff-{User.objects.count()}", is_staff=True)
        user.user_permissions.set(
            Permission.objects.filter(content_type__app_label="tinyjobs", codename__in=permissions)
        )
        assert user.user_permissions.count() == len(permissions)
        return client_of(user)

    return enter


def client_of(user):
    client = Client()
    client.force_login(user)
    return client


def store(alias="default"):
    """The store of an alias, for calls in this thread."""
    return task_backends[alias].shared.store


def stored(job_id, alias="default"):
    return finish(store(alias).get(job_id))


def text_of(client, url, status=200):
    """What a page says, as it is sent."""
    answer = client.get(url)
    assert answer.status_code == status, answer.content.decode()[-2000:]
    return answer.content.decode()


def messages_of(answer):
    """What is told after an action, once the redirect was followed."""
    return [str(message) for message in answer.context["messages"]]


def act(client, action, *ids, confirmed="yes", **more):
    """Press a button for jobs."""
    given = {"action": action, "_selected_action": ids, "confirmed": confirmed, **more}
    return client.post("/admin/tinyjobs/job/act/", given, follow=True)


def act_on_schedule(client, action, name, confirmed="yes", **more):
    given = {"action": action, "name": name, "confirmed": confirmed, **more}
    return client.post("/admin/tinyjobs/schedule/act/", given, follow=True)
