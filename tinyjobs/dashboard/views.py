"""The pages as views: a method that fits, rights, a desk, the page's dictionary, and that as HTML or as JSON.

Nothing here changes anything: what does is in `actions`, behind POST.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib import messages
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, InterfaceError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect, JsonResponse
from django.template.response import TemplateResponse
from django.utils.functional import Promise
from django.utils.translation import gettext as _

from tinyjobs.core.errors import StoreUnavailableError, TinyJobsError
from tinyjobs.dashboard.logbook import named_in_entry
from tinyjobs.dashboard.pages.asking import NotThere, Query
from tinyjobs.dashboard.rights import Rights
from tinyjobs.dashboard.services import Desk
from tinyjobs.dashboard.troubles import as_text, told

if TYPE_CHECKING:
    from tinyjobs.dashboard.site import Dashboard

logger = logging.getLogger("tinyjobs.dashboard")

#: What the script that keeps a page fresh sends, to get the main block alone.
REFRESH_HEADER = "Tinyjobs-Refresh"
#: Seconds after which a client may ask a store again that did not answer.
RETRY_AFTER = "5"
PLAIN = "text/plain; charset=utf-8"


# Names that a browser takes for folders when they stand between slashes; `quote` leaves them as they are.
_DOTS = {".": "_2E", "..": "_2E_2E"}
_NAMES = {quoted: name for name, quoted in _DOTS.items()}


class NoAlias(NotThere):
    """There is no store for any page to be about."""


def quoted(name: str) -> str:
    """A name as it stands in an address: as in the admin, and dots alone as well."""
    return _DOTS.get(name) or quote(name)


def unquoted(part: str) -> str:
    """The name that stands in an address."""
    return _NAMES.get(part) or unquote(part)


@dataclass(frozen=True, kw_only=True)
class PageKind:
    """One kind of page. `about` is "jobs" or "schedules": whose view permission it takes.

    `build` makes its dictionary of a desk, a query, and the name of what it is about where it is about one thing.
    """

    name: str
    url_name: str
    title: str | Promise
    about: str
    build: Callable[..., dict[str, Any]]
    parent: str | None = None

    @property
    def template(self) -> str:
        """The template, which a project can override by that name."""
        return f"admin/tinyjobs/{self.name}.html"


class PageView:
    """A page, as HTML. Its name on one subject is the last part of the address, quoted as in the admin."""

    methods = ("GET", "HEAD")

    def __init__(self, dashboard: "Dashboard", kind: PageKind) -> None:
        self.dashboard = dashboard
        self.kind = kind
        self.__name__ = kind.name

    def __call__(self, request: HttpRequest, object_id: str | None = None) -> HttpResponse:
        """Answer a request."""
        if request.method not in self.methods:
            return HttpResponseNotAllowed(self.methods)
        rights = Rights(self.dashboard.site, request)
        if not (rights.view_jobs if self.kind.about == "jobs" else rights.view_schedules):
            return self.forbidden(request)
        subject = () if object_id is None else (unquoted(object_id),)
        entry = named_in_entry(subject[0]) if subject else None
        if entry is not None:
            return self.from_history(request, *entry)
        alias: str | None = None
        try:
            alias, desk = self.dashboard.desk_for(request)
            query = Query(given=request.GET.dict(), sees_values=rights.view_values)
            data = desk.reading(lambda: self.kind.build(desk, query, *subject))
        except NoAlias:
            return self.without_stores(request)
        except NotThere:
            return self.missing(request)
        except (TinyJobsError, DatabaseError, InterfaceError) as error:
            return self.unavailable(request, alias, error)
        if not rights.view_values:
            withhold(data)
        return self.answer(request, rights, desk, data)

    def answer(self, request: HttpRequest, rights: Rights, desk: Desk, data: dict[str, Any]) -> HttpResponse:
        """The page."""
        context = self.dashboard.context(request, rights, desk.alias, self.kind, data)
        return TemplateResponse(request, self.kind.template, context)

    def from_history(self, request: HttpRequest, subject: str, alias: str) -> HttpResponse:
        """The answer to an address as the admin's log has it: that of the page."""
        if alias not in self.dashboard.desks():
            return self.missing(request)
        return HttpResponseRedirect(
            self.dashboard.url(self.kind.url_name, subject, query=self.dashboard.alias_query(alias))
        )

    def forbidden(self, request: HttpRequest) -> HttpResponse:
        """The answer to who may not see it."""
        raise PermissionDenied

    def missing(self, request: HttpRequest) -> HttpResponse:
        """The answer where there is no such thing."""
        raise Http404(_("There is nothing of that name here."))

    def without_stores(self, request: HttpRequest) -> HttpResponse:
        """The answer where no page has anything to be about."""
        return no_stores(self.dashboard, request)

    def unavailable(self, request: HttpRequest, alias: str | None, error: Exception) -> HttpResponse:
        """The answer where the store gave none."""
        return store_trouble(self.dashboard, request, alias, error)


class OverviewView(PageView):
    """The first page, which the admin has links to for whoever may see anything of ours."""

    def forbidden(self, request: HttpRequest) -> HttpResponse:
        """Who may see schedules alone is led to them."""
        if not Rights(self.dashboard.site, request).view_schedules:
            return super().forbidden(request)
        query = {"backend": request.GET.get("backend")}
        return HttpResponseRedirect(self.dashboard.url("tinyjobs_schedule_changelist", query=query))


class ApiView(PageView):
    """The same page as JSON."""

    def answer(self, request: HttpRequest, rights: Rights, desk: Desk, data: dict[str, Any]) -> HttpResponse:
        """The page's dictionary and the alias it is about."""
        return JsonResponse({"backend": desk.alias, **data}, json_dumps_params={"default": str})

    def forbidden(self, request: HttpRequest) -> HttpResponse:
        """The same in JSON."""
        return JsonResponse({"error": _("Your account may not see this.")}, status=403)

    def missing(self, request: HttpRequest) -> HttpResponse:
        """The same in JSON."""
        return JsonResponse({"error": _("There is nothing of that name here.")}, status=404)

    def without_stores(self, request: HttpRequest) -> HttpResponse:
        """The same in JSON."""
        return JsonResponse({"error": _no_alias()}, status=404)

    def unavailable(self, request: HttpRequest, alias: str | None, error: Exception) -> HttpResponse:
        """The same in JSON."""
        logger.warning("the dashboard's store gave no answer: %s", error)
        return JsonResponse({"error": str(told(error))}, status=503, headers={"Retry-After": RETRY_AFTER})


def withhold(data: dict[str, Any]) -> None:
    """Take out of a page what was sent and what came of it."""
    for name in ("arguments", "result", "last_error", "key"):
        if name in data:
            data[name] = None
    for execution in data.get("executions", ()):
        execution["traceback"] = None


def _no_alias() -> str:
    return _(
        "No alias of TASKS uses tinyjobs, so there is nothing to show. Give one the backend tinyjobs.TinyJobsBackend."
    )


def no_stores(dashboard: "Dashboard", request: HttpRequest) -> HttpResponse:
    """The page that says that no alias is ours, with status 404."""
    context = {**dashboard.trouble_context(request, None, _no_alias()), "title": _("Background jobs"), "is_404": True}
    return TemplateResponse(request, "admin/tinyjobs/unavailable.html", context, status=404)


def store_trouble(dashboard: "Dashboard", request: HttpRequest, alias: str | None, error: Exception) -> HttpResponse:
    """The page that says that a store does not answer, with status 503."""
    logger.warning("the dashboard's store gave no answer: %s", error)
    headers = {"Retry-After": RETRY_AFTER, "Cache-Control": "no-store"}
    try:
        context = dashboard.trouble_context(request, alias, told(error).html)
        page = TemplateResponse(request, "admin/tinyjobs/unavailable.html", context, status=503, headers=headers)
        return page.render()
    except (DatabaseError, InterfaceError, StoreUnavailableError):
        return plain_trouble(error)


def plain_trouble(error: Exception) -> HttpResponse:
    """The same where the admin's own database is out of reach as well."""
    headers = {"Retry-After": RETRY_AFTER, "Cache-Control": "no-store"}
    return HttpResponse(str(told(error)), status=503, content_type=PLAIN, headers=headers)


def told_at_once(
    dashboard: "Dashboard", request: HttpRequest, rights: Rights, alias: str, back_url: str
) -> HttpResponse:
    """The page that tells the messages so far, after an action that met trouble.

    A redirect would leave them to the next page, which may not be had while the trouble lasts, and keep them in the
    session meanwhile, whose database it may be that is locked. A session that is saved with every request is left alone
    only after a status of 500 and more.
    """
    headers = {"Cache-Control": "no-store"}
    status = 503 if settings.SESSION_SAVE_EVERY_REQUEST else 200
    try:
        context = {
            **dashboard.shared(request, rights, alias, ""),
            "layout": "admin/tinyjobs/base.html",
            "title": _("What was done"),
            "back_url": back_url,
        }
        page = TemplateResponse(request, "admin/tinyjobs/outcome.html", context, status=status, headers=headers)
        return page.render()
    except (DatabaseError, InterfaceError, StoreUnavailableError):
        text = "".join(f"{as_text(message.message)}\n" for message in messages.get_messages(request))
        return HttpResponse(text, status=status, content_type=PLAIN, headers=headers)
