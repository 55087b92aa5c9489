"""The dashboard on one admin site: its addresses, who is let in, which alias a request means, what all pages share.

An admin site has `<app>/<model>/` for each model and the list of an app's models at `<app>/`. The pages about jobs and
schedules are those of their models; the overview takes the place of that list, and queues and workers stand beside.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import update_wrapper
from typing import Any
from urllib.parse import urlencode

from django.apps import apps
from django.contrib.admin import AdminSite
from django.contrib.auth.views import redirect_to_login
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, path, reverse, reverse_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.vary import vary_on_headers

from tinyjobs.dashboard.actions import JobAction, ScheduleAction, ScheduleEditor
from tinyjobs.dashboard.pages.asking import NotThere
from tinyjobs.dashboard.pages.job import job
from tinyjobs.dashboard.pages.jobs import jobs
from tinyjobs.dashboard.pages.overview import overview
from tinyjobs.dashboard.pages.queues import queues
from tinyjobs.dashboard.pages.schedules import schedule, schedules
from tinyjobs.dashboard.pages.workers import workers
from tinyjobs.dashboard.rights import Rights
from tinyjobs.dashboard.services import Desk, Desks, alias_desks
from tinyjobs.dashboard.views import (
    REFRESH_HEADER,
    ApiView,
    NoAlias,
    OverviewView,
    PageKind,
    PageView,
    plain_trouble,
    quoted,
)

type View = Callable[..., HttpResponse]

OVERVIEW = PageKind(
    name="overview", url_name="tinyjobs_overview", title=gettext_lazy("Overview"), about="jobs", build=overview
)
JOBS = PageKind(name="jobs", url_name="tinyjobs_job_changelist", title=gettext_lazy("Jobs"), about="jobs", build=jobs)
JOB = PageKind(
    name="job",
    url_name="tinyjobs_job_change",
    title=gettext_lazy("Job"),
    about="jobs",
    build=job,
    parent="tinyjobs_job_changelist",
)
SCHEDULES = PageKind(
    name="schedules",
    url_name="tinyjobs_schedule_changelist",
    title=gettext_lazy("Schedules"),
    about="schedules",
    build=schedules,
)
SCHEDULE = PageKind(
    name="schedule",
    url_name="tinyjobs_schedule_change",
    title=gettext_lazy("Schedule"),
    about="schedules",
    build=schedule,
    parent="tinyjobs_schedule_changelist",
)
QUEUES = PageKind(name="queues", url_name="tinyjobs_queues", title=gettext_lazy("Queues"), about="jobs", build=queues)
WORKERS = PageKind(
    name="workers", url_name="tinyjobs_workers", title=gettext_lazy("Workers"), about="jobs", build=workers
)
#: The pages that each page has a link to, in order.
MENU = (OVERVIEW, JOBS, SCHEDULES, QUEUES, WORKERS)


class Dashboard:
    """The pages and actions on one site. `desks` finds what they are about: by default the aliases of `TASKS`."""

    def __init__(self, site: AdminSite, desks: Desks = alias_desks) -> None:
        self.site = site
        self.desks = desks

    # --- addresses ----------------------------------------------------------------------------------------------

    def job_urls(self) -> list[URLPattern]:
        """Below `<app>/job/`."""
        return [
            self._path("", PageView(self, JOBS), JOBS.url_name),
            self._path("act/", JobAction(self), "tinyjobs_job_act", after_login=JOBS),
            self._path("<str:object_id>/", PageView(self, JOB), JOB.url_name),
        ]

    def schedule_urls(self) -> list[URLPattern]:
        """Below `<app>/schedule/`."""
        return [
            self._path("", PageView(self, SCHEDULES), SCHEDULES.url_name),
            self._path("act/", ScheduleAction(self), "tinyjobs_schedule_act", after_login=SCHEDULES),
            self._path("add/", ScheduleEditor(self), "tinyjobs_schedule_add"),
            self._path("<str:object_id>/change/", PageView(self, SCHEDULE), SCHEDULE.url_name),
            self._path("<str:object_id>/edit/", ScheduleEditor(self), "tinyjobs_schedule_edit"),
        ]

    def site_urls(self) -> list[URLPattern | URLResolver]:
        """What stands beside the models, as the site's own addresses."""
        return [
            self._path("tinyjobs/", OverviewView(self, OVERVIEW), OVERVIEW.url_name),
            self._path("tinyjobs/queues/", PageView(self, QUEUES), QUEUES.url_name),
            self._path("tinyjobs/workers/", PageView(self, WORKERS), WORKERS.url_name),
            *(self._api(kind, f"tinyjobs/api/{kind.name}/") for kind in MENU if kind is not SCHEDULES),
            self._api(JOB, "tinyjobs/api/jobs/<str:object_id>/"),
            *self.schedule_site_urls(),
        ]

    def schedule_site_urls(self) -> list[URLPattern | URLResolver]:
        """What of it is about schedules, for a site that has no jobs."""
        return [
            self._api(SCHEDULES, "tinyjobs/api/schedules/"),
            self._api(SCHEDULE, "tinyjobs/api/schedules/<str:object_id>/"),
        ]

    def _api(self, kind: PageKind, route: str) -> URLPattern:
        view = ApiView(self, kind)

        def for_programs(request: HttpRequest, **about: str) -> HttpResponse:
            # A program has no use for a page to log in.
            return view(request, **about) if self.site.has_permission(request) else view.forbidden(request)

        return self._path(route, for_programs, f"tinyjobs_api_{kind.name}", lets_in=True)

    def _path(
        self, route: str, view: View, name: str, *, lets_in: bool = False, after_login: PageKind | None = None
    ) -> URLPattern:
        return path(route, self._guarded(view, lets_in=lets_in, after_login=after_login), name=name)

    def _guarded(self, view: View, *, lets_in: bool, after_login: PageKind | None) -> View:
        """The view behind the site's door. The database of the door itself may be out of reach.

        `after_login`: where somebody goes on whose session had ended; else where they wanted to go.
        """

        def inside(request: HttpRequest, **about: str) -> HttpResponse:
            request.current_app = self.site.name
            return view(request, **about)

        admin_view = never_cache(inside) if lets_in else self.site.admin_view(vary_on_headers(REFRESH_HEADER)(inside))

        def guarded(request: HttpRequest, **about: str) -> HttpResponse:
            try:
                if after_login is not None and not self.site.has_permission(request):
                    there = self.url(after_login.url_name, query={"backend": request.POST.get("backend")})
                    return redirect_to_login(there, str(guarded.login_url))  # type: ignore[attr-defined]
                return admin_view(request, **about)
            except (OperationalError, InterfaceError) as error:
                return plain_trouble(error)

        guarded.login_url = reverse_lazy("admin:login", current_app=self.site.name)  # type: ignore[attr-defined]
        guarded.admin_site = self.site  # type: ignore[attr-defined]
        update_wrapper(guarded, admin_view)
        if lets_in:
            guarded.login_required = False  # type: ignore[attr-defined]  # else Django's middleware sends it to log in
        return guarded

    def url(self, name: str, *args: str, query: Mapping[str, str | None] | None = None) -> str:
        """The address of a view of ours; `args` are quoted."""
        found = reverse(f"admin:{name}", args=[quoted(part) for part in args], current_app=self.site.name)
        return found + _query(query or {})

    # --- what a request means -----------------------------------------------------------------------------------

    def desk_for(self, request: HttpRequest) -> tuple[str, Desk]:
        """The alias that a request names, the first one without; raises `NotThere` for one that there is not.

        Raises `NoAlias` where there is none at all.
        """
        makers = self.desks()
        if not makers:
            raise NoAlias
        given = request.POST.get("backend") or request.GET.get("backend")
        alias = given or ("default" if "default" in makers else next(iter(makers)))
        if alias not in makers:
            raise NotThere(alias)
        return alias, makers[alias]()

    def alias_query(self, alias: str | None) -> dict[str, str | None]:
        """What an address needs so that it means that alias."""
        return {"backend": alias if len(self.desks()) > 1 else None}

    # --- what pages share ---------------------------------------------------------------------------------------

    def context(
        self, request: HttpRequest, rights: Rights, alias: str | None, kind: PageKind, data: Mapping[str, Any]
    ) -> dict[str, Any]:
        """What a template of a page gets: `page` is the page's dictionary."""
        is_refresh = REFRESH_HEADER in request.headers
        subject = data.get("name") or data.get("id")
        return {
            **self.shared(request, rights, alias, kind.url_name),
            "layout": "admin/tinyjobs/refreshed.html" if is_refresh else "admin/tinyjobs/base.html",
            "title": f"{kind.title} {subject}" if subject and kind.parent else kind.title,
            "kind": kind,
            "subject": subject if kind.parent else None,
            "parent": next((entry for entry in MENU if entry.url_name == kind.parent), None),
            "page": data,
            "api_url": self._api_url(kind, alias, subject),
        }

    def shared(self, request: HttpRequest, rights: Rights, alias: str | None, current: str) -> dict[str, Any]:
        """What the frame around every page needs."""
        kept = self.alias_query(alias)
        seen = [kind for kind in MENU if (rights.view_jobs if kind.about == "jobs" else rights.view_schedules)]
        return {
            **self.site.each_context(request),
            "app_name": apps.get_app_config("tinyjobs").verbose_name,
            "rights": rights.all,
            "backend": alias,
            "backend_query": _query(kept),
            "menu": [
                {
                    "title": kind.title,
                    "url": self.url(kind.url_name, query=kept),
                    "is_current": kind.url_name == current,
                }
                for kind in seen
            ],
            "aliases": [
                {"name": name, "url": self._of_alias(request, name), "is_current": name == alias}
                for name in self._several()
            ],
            "dashboard": self,
        }

    def trouble_context(self, request: HttpRequest, alias: str | None, reason: str) -> dict[str, Any]:
        """For the page about a store that does not answer."""
        rights = Rights(self.site, request)
        is_refresh = REFRESH_HEADER in request.headers
        return {
            **self.shared(request, rights, alias, ""),
            "layout": "admin/tinyjobs/refreshed.html" if is_refresh else "admin/tinyjobs/base.html",
            "title": _("The store does not answer"),
            "reason": reason,
        }

    def _of_alias(self, request: HttpRequest, name: str) -> str:
        """Where the switch to an alias leads: the same page about that one, or the list that this one is below.

        One job or schedule is in one store, and a page that answers a form is not asked for again.
        """
        match = request.resolver_match
        here = (match.url_name if match is not None else None) or ""
        if here not in {*(kind.url_name for kind in MENU), "tinyjobs_schedule_add"}:
            lists = {"tinyjobs_job_": JOBS, "tinyjobs_schedule_": SCHEDULES}
            here = next((kind for start, kind in lists.items() if here.startswith(start)), OVERVIEW).url_name
        return self.url(here, query={"backend": name})

    def _several(self) -> Sequence[str]:
        names: Iterable[str] = self.desks()
        found = list(names)
        return found if len(found) > 1 else []

    def _api_url(self, kind: PageKind, alias: str | None, subject: str | None) -> str:
        about = (subject,) if kind.parent and subject else ()
        return self.url(f"tinyjobs_api_{kind.name}", *about, query=self.alias_query(alias))


def _query(parameters: Mapping[str, str | None]) -> str:
    """The end of an address, with its question mark; empty where there is nothing to say."""
    given = {name: value for name, value in parameters.items() if value}
    return f"?{urlencode(given)}" if given else ""
