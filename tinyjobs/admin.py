"""The admin's entries for jobs and schedules, which lead to the dashboard.

Registered with the default site. For a site of your own: `site.register(Job, JobAdmin)` and
`site.register(Schedule, ScheduleAdmin)`; what Django's own lists and forms would do, the dashboard's pages do. Rows of
the tables are not edited here: a job changes by the verbs of its store alone, which may be none of Django's databases.
"""

from collections.abc import Sequence
from functools import cached_property, wraps
from typing import Any

from django.contrib import admin
from django.contrib.admin import AdminSite
from django.contrib.admin.models import LogEntry
from django.db import router, transaction
from django.db.models import Model
from django.http import HttpRequest
from django.urls import URLPattern, URLResolver

from tinyjobs.dashboard.logbook import entry_id
from tinyjobs.dashboard.services import Desks, alias_desks
from tinyjobs.dashboard.site import Dashboard
from tinyjobs.models import Job, Schedule


class DashboardAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """What both entries have in common. `desks` finds the stores that the pages are about."""

    desks: Desks = staticmethod(alias_desks)

    def __init__(self, model: type[Model], admin_site: AdminSite) -> None:
        super().__init__(model, admin_site)
        _add_pages(admin_site)

    @cached_property
    def dashboard(self) -> Dashboard:
        """The dashboard of the site of this entry."""
        return Dashboard(self.admin_site, self.desks)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody adds rows here."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody edits rows here."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody deletes rows here; the dashboard has its own action for that."""
        return False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whether the user may see them: the permission to view, or, as Django has it, to change."""
        return self._has(request, "view") or self._has(request, "change")

    def has_action_permission(self, request: HttpRequest, action: str) -> bool:
        """Whether the user may do that: by the permission of that very action."""
        return self._has(request, action)

    def log_acts(self, request: HttpRequest, rows: Sequence[Model], flag: int, done: str, *, alias: str) -> None:
        """Write an entry of the admin's log for each row, which is in the store of that alias.

        What it raises is logged and told, and what was done stays: so in a savepoint, where the request has a
        transaction open.
        """
        for row in rows:
            row.pk = entry_id(row.pk, alias)
        with transaction.atomic(using=router.db_for_write(LogEntry)):
            LogEntry.objects.log_actions(request.user.pk, rows, flag, done)  # type: ignore[arg-type]

    def _has(self, request: HttpRequest, action: str) -> bool:
        permission = f"{self.opts.app_label}.{action}_{self.opts.model_name}"
        return request.user.has_perm(permission)


class JobAdmin(DashboardAdmin):
    """The entry for jobs. It also gives its site the overview, the queues and the workers."""

    def has_values_permission(self, request: HttpRequest) -> bool:
        """Whether a user who may see jobs sees their arguments, results and errors as well. Yes, unless overridden."""
        return True

    def get_urls(self) -> list[URLPattern]:
        """The pages of jobs."""
        return self.dashboard.job_urls()


class ScheduleAdmin(DashboardAdmin):
    """The entry for schedules."""

    def get_urls(self) -> list[URLPattern]:
        """The pages of schedules."""
        return self.dashboard.schedule_urls()


def _add_pages(site: AdminSite) -> None:
    """Let the site have the addresses that belong to no model. They go with the entry that they are of."""
    if getattr(site, "_has_tinyjobs_pages", False):
        return
    of_the_site = site.get_urls

    @wraps(of_the_site)
    def get_urls() -> list[URLPattern | URLResolver]:
        jobs: Any = site.get_model_admin(Job) if site.is_registered(Job) else None
        schedules: Any = site.get_model_admin(Schedule) if site.is_registered(Schedule) else None
        if isinstance(jobs, JobAdmin):
            return [*jobs.dashboard.site_urls(), *of_the_site()]
        if isinstance(schedules, ScheduleAdmin):
            return [*schedules.dashboard.schedule_site_urls(), *of_the_site()]
        return of_the_site()

    site.get_urls = get_urls  # type: ignore[method-assign]
    site._has_tinyjobs_pages = True  # type: ignore[attr-defined]


admin.site.register(Job, JobAdmin)
admin.site.register(Schedule, ScheduleAdmin)
