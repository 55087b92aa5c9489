"""The admin's log of who did what: an entry for each job or schedule that an action has changed.

By way of the model admins, so that a project which logs differently does so here as well. The rows that entries are
about are not read: a job may be in a store that is none of Django's databases.

Django makes the address of an entry from the id in it and knows no alias, so the id brings that along in a second line,
which no job's id and no schedule's name has. The pages read it (`named_in_entry`); `default` is not written.

What was done stands whether or not it could be noted, so a failure is logged and answered, and never raised.
"""

import logging
from collections.abc import Sequence
from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.admin.models import ADDITION, CHANGE, DELETION
from django.db.models import Model
from django.http import HttpRequest

from tinyjobs.models import Job, Schedule

logger = logging.getLogger("tinyjobs.dashboard")

_FLAGS = {"delete": DELETION, "add": ADDITION}
_UNNAMED = "default"


def entry_id(subject: str, alias: str) -> str:
    """What an entry of the log has as the id of a job or a schedule in the store of an alias."""
    return subject if alias == _UNNAMED else f"{subject}\n{alias}"


def named_in_entry(part: str) -> tuple[str, str] | None:
    """The job or schedule and the alias, where that is the id of an entry which names one."""
    subject, line, alias = part.partition("\n")
    return (subject, alias) if line else None


def log_jobs(site: AdminSite, request: HttpRequest, alias: str, action: str, done: str, ids: Sequence[str]) -> bool:
    """Note what became of these jobs; `done` says it, in the language of whoever did it. Whether that worked."""
    return _log(site.get_model_admin(Job), request, alias, action, done, [Job(id=job_id) for job_id in ids])


def log_schedule(site: AdminSite, request: HttpRequest, alias: str, action: str, done: str, name: str) -> bool:
    """Note what became of a schedule. Whether that worked."""
    return _log(site.get_model_admin(Schedule), request, alias, action, done, [Schedule(name=name)])


def _log(admin: Any, request: HttpRequest, alias: str, action: str, done: str, rows: Sequence[Model]) -> bool:
    names = ", ".join(str(row.pk) for row in rows)
    try:
        admin.log_acts(request, rows, _FLAGS.get(action, CHANGE), done, alias=alias)
    except Exception:  # a project's own way to log may raise anything
        logger.exception("what was done could not be noted in the admin's log: %s (%s)", done, names)
        return False
    return True
