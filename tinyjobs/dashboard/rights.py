"""What a user may do: by the model admins of the site, which ask Django's permissions and which a project can override.

Reading takes the view permission, as everywhere in the admin. Acting takes a permission of its own for each action; the
change permission of jobs grants none of them. No field of a user is looked at.
"""

from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest

from tinyjobs.models import Job, Schedule


class Rights:
    """The rights of whoever sent a request, on one site."""

    def __init__(self, site: AdminSite, request: HttpRequest) -> None:
        self._request = request
        self._jobs: Any = site.get_model_admin(Job) if site.is_registered(Job) else None
        self._schedules: Any = site.get_model_admin(Schedule) if site.is_registered(Schedule) else None

    @property
    def view_jobs(self) -> bool:
        """Whether they may see jobs, queues and workers."""
        return self._jobs is not None and self._jobs.has_view_permission(self._request)

    @property
    def view_schedules(self) -> bool:
        """Whether they may see schedules."""
        return self._schedules is not None and self._schedules.has_view_permission(self._request)

    @property
    def view_values(self) -> bool:
        """Whether they may see arguments, results and errors."""
        return self.view_jobs and bool(self._jobs.has_values_permission(self._request))

    def may(self, action: str) -> bool:
        """Whether they may do this to a job: `retry`, `cancel` or `delete`."""
        return self.view_jobs and bool(self._jobs.has_action_permission(self._request, action))

    def may_to_schedule(self, action: str) -> bool:
        """Whether they may do this to a schedule: `run`, or `change`, which all the rest takes."""
        return self.view_schedules and bool(self._schedules.has_action_permission(self._request, action))

    @property
    def all(self) -> dict[str, bool]:
        """For templates, which leave out buttons that would be refused."""
        jobs = {action: self.may(action) for action in ("retry", "cancel", "delete")}
        return {
            **jobs,
            "act": any(jobs.values()),
            "view_jobs": self.view_jobs,
            "view_schedules": self.view_schedules,
            "run_schedule": self.may_to_schedule("run"),
            "change_schedule": self.may_to_schedule("change"),
            "edit_schedule": self.may_to_schedule("change") and self.view_values,
        }
