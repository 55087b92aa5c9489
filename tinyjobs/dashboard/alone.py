"""The dashboard without an admin: the same pages and actions about one app, behind no login.

Whoever reaches it may do everything, so it belongs on the loopback, or behind the proxy that guards the rest. What
protects from other web sites is kept: a request has to name a host that is allowed, and a form has to bring its token.
Imported once a Django is there to make pages with (`minimal`).
"""

import logging
from collections.abc import Sequence
from functools import cache, cached_property
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.admin import AdminSite
from django.contrib.messages.storage.cookie import CookieStorage
from django.contrib.staticfiles.views import serve
from django.core.exceptions import PermissionDenied
from django.core.handlers.exception import convert_exception_to_response
from django.db.models import Model
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponsePermanentRedirect,
    HttpResponseRedirect,
)
from django.http.request import split_domain_port, validate_host
from django.middleware.csrf import CsrfViewMiddleware
from django.template.response import SimpleTemplateResponse, TemplateResponse
from django.urls import (
    Resolver404,
    ResolverMatch,
    URLPattern,
    URLResolver,
    get_resolver,
    path,
    re_path,
    reverse,
    set_urlconf,
)
from django.utils import translation
from django.utils.cache import patch_vary_headers
from django.utils.http import escape_leading_slashes
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from tinyjobs.admin import JobAdmin, ScheduleAdmin
from tinyjobs.app.facade import TinyJobs
from tinyjobs.cli.target import AppTarget
from tinyjobs.core.errors import ConfigurationError
from tinyjobs.dashboard.minimal import LOOPBACK
from tinyjobs.dashboard.services import Desk, Desks
from tinyjobs.dashboard.views import PLAIN
from tinyjobs.models import Job, Schedule

logger = logging.getLogger("tinyjobs.dashboard")


class Operator:
    """Whoever sent the request. There is no login, so nobody is told from anybody."""

    is_active = is_staff = is_authenticated = True
    is_anonymous = False
    pk = None

    def has_perm(self, permission: str, obj: object = None) -> bool:
        """Everything is permitted."""
        return True

    def has_module_perms(self, label: str) -> bool:
        """Everything is permitted."""
        return True


class AloneSite(AdminSite):
    """An admin site without users, and with the pages of the dashboard alone."""

    site_header = site_title = _("Background jobs")
    site_url = None
    enable_nav_sidebar = False

    def has_permission(self, request: HttpRequest) -> bool:
        """Everybody who gets here may."""
        return True

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        """The pages' frame has nothing of users."""
        return {**super().each_context(request), "frame": "admin/tinyjobs/alone.html"}

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """There is no index of models."""
        return []


class Noting:
    """Notes what was done in the process's log, since there is no table of the admin's for it."""

    def log_acts(self, request: HttpRequest, rows: Sequence[Model], flag: int, done: str, *, alias: str) -> None:
        """One line for each row."""
        place = request.META.get("REMOTE_ADDR") or "nowhere known"
        for row in rows:
            logger.info("%s in %s: %s (from %s)", row.pk, alias, done, place)


class AloneJobs(Noting, JobAdmin):
    """The entry for jobs."""


class AloneSchedules(Noting, ScheduleAdmin):
    """The entry for schedules."""


class FormGuard(CsrfViewMiddleware):
    """Lets in forms from pages of this dashboard, also where a proxy in front has ended TLS or asks by another name.

    `hosts` are the names that were given for it. A page by one of them is ours whether it came by http or https, at the
    usual port or the one that the request names. `*` stands for the name of the request alone.
    """

    def __init__(self, hosts: Sequence[str]) -> None:
        super().__init__(lambda request: HttpResponse())
        self._hosts = hosts
        self._named = [host for host in hosts if host != "*"]

    def _origin_verified(self, request: HttpRequest) -> bool:
        is_own: bool = super()._origin_verified(request)  # type: ignore[misc]
        return is_own or self._is_ours(request, request.META["HTTP_ORIGIN"], ("http", "https"))

    def _check_referer(self, request: HttpRequest) -> None:
        if not self._is_ours(request, request.META.get("HTTP_REFERER", ""), ("https",)):
            super()._check_referer(request)  # type: ignore[misc]

    def _is_ours(self, request: HttpRequest, address: str, schemes: Sequence[str]) -> bool:
        try:
            parts = urlsplit(address)
        except ValueError:
            return False
        domain, port = split_domain_port(parts.netloc)
        asked, asked_port = split_domain_port(request.get_host())
        if not domain or parts.scheme not in schemes or port not in ("", asked_port):
            return False
        return validate_host(domain, self._named) or (domain == asked and validate_host(asked, self._hosts))


class Alone:
    """The dashboard of the stores that `desks` finds, as a function from requests to responses.

    `hosts` are the names, beside those of the loopback, that a request may give as its host; `*` stands for any.
    `ALLOWED_HOSTS` is not asked: a project may allow any host, since its own pages have logins.
    """

    def __init__(self, desks: Desks, hosts: Sequence[str] = ()) -> None:
        if settings.CSRF_USE_SESSIONS:
            raise ConfigurationError(
                "The dashboard by itself keeps the token of its forms in a cookie: CSRF_USE_SESSIONS has to be off."
            )
        self._given = tuple(hosts)
        self._site = AloneSite(name="admin")
        for model, entry in ((Job, AloneJobs), (Schedule, AloneSchedules)):
            self._site.register(model, type(entry.__name__, (entry,), {"desks": staticmethod(desks)}))
        #: For a handler: it turns what is raised into a response, as for a project's pages.
        self.respond = convert_exception_to_response(self._respond)

    # --- requests -----------------------------------------------------------------------------------------------

    @cached_property
    def _urlconf(self) -> Any:
        jobs: Any = self._site.get_model_admin(Job)
        schedules: Any = self._site.get_model_admin(Schedule)
        found = ModuleType("tinyjobs.dashboard.urls_alone")
        pages: list[URLPattern | URLResolver] = [
            path("", _to_overview, name="index"),
            *_below("tinyjobs/job/", jobs.get_urls()),
            *_below("tinyjobs/schedule/", schedules.get_urls()),
            *jobs.dashboard.site_urls(),
        ]
        found.urlpatterns = [  # type: ignore[attr-defined]
            re_path(r"^static/(?P<path>.+)$", _static),
            path("", (pages, "admin", self._site.name)),
        ]
        return found

    def _respond(self, request: HttpRequest) -> HttpResponseBase:
        set_urlconf(self._urlconf)
        request.urlconf = self._urlconf
        with translation.override(translation.get_language_from_request(request)):
            if (refusal := self._wrong_host(request)) is not None:
                return HttpResponse(refusal, status=400, content_type=PLAIN)
            request.user = Operator()  # type: ignore[assignment]
            request.LANGUAGE_CODE = translation.get_language()
            try:
                response = self._called(request)
            except Http404:
                response = self._refused(request, 404, gettext("There is nothing of that name here."))
            except PermissionDenied as error:
                response = self._refused(request, 403, str(error) or gettext("This cannot be done."))
        if request.is_secure():
            for cookie in response.cookies.values():
                cookie["secure"] = True
        if request.method == "HEAD":
            response = _without_body(response)
        patch_vary_headers(response, ("Accept-Language", "Cookie"))
        response.headers.setdefault("X-Frame-Options", "DENY")
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        response.headers.setdefault("Referrer-Policy", "same-origin")
        response.headers.setdefault("Content-Security-Policy", "default-src 'self'; object-src 'none'; base-uri 'none'")
        return response

    def _called(self, request: HttpRequest) -> HttpResponseBase:
        """The view, inside what a project has as middleware: the token of forms, and the messages after an action."""
        found = self._found(request)
        if found is None:
            return HttpResponsePermanentRedirect(escape_leading_slashes(request.get_full_path(force_append_slash=True)))
        request.resolver_match = found
        guard = FormGuard(self._given)
        guard.process_request(request)
        request._messages = storage = CookieStorage(request)  # type: ignore[attr-defined]
        response = guard.process_view(request, found.func, found.args, found.kwargs)
        if response is not None:
            raise PermissionDenied(
                gettext("The form came without its token, or from another site. Reload its page and send it again.")
            )
        response = found.func(request, *found.args, **found.kwargs)
        if isinstance(response, SimpleTemplateResponse):
            response.render()
        storage.update(response)
        return guard.process_response(request, response)

    def _refused(self, request: HttpRequest, status: int, why: str) -> HttpResponse:
        """Django's own pages for this are in English where a project has none of its own."""
        dashboard = self._site.get_model_admin(Job).dashboard  # type: ignore[attr-defined]
        title = f"{status} – {gettext('Background jobs')}"
        context = {**dashboard.trouble_context(request, None, why), "title": title, "is_404": True}
        return TemplateResponse(request, "admin/tinyjobs/unavailable.html", context, status=status).render()

    def _found(self, request: HttpRequest) -> ResolverMatch | None:
        """The view of an address; None where it lacks its last slash. Raises `Http404` where there is none."""
        resolver = get_resolver(self._urlconf)
        path = request.path_info or "/"  # the place where it is mounted, as ASGI has it
        try:
            return resolver.resolve(path)
        except Resolver404:
            if request.method not in ("GET", "HEAD") or path.endswith("/"):
                raise
            resolver.resolve(f"{path}/")
            return None

    def _wrong_host(self, request: HttpRequest) -> str | None:
        """Why the request is refused: a page of another site may have a browser send it here by a name of its own."""
        given: str = request._get_raw_host()  # type: ignore[attr-defined]
        domain, _port = split_domain_port(given)
        if not domain or not validate_host(domain, [*LOOPBACK, *self._given]):
            logger.warning("the dashboard was asked for by the host %.200r, which is not allowed", given)
            text = gettext(
                "The dashboard was asked for by the host %(host)s, which is not allowed. If that is its name, allow "
                "it: --allowed-host of the command, hosts= of wsgi() and asgi()."
            )
            return text % {"host": f"{given!r:.200}"}
        # What Django holds a form's origin against asks its own list once more.
        request.get_host = lambda: given  # type: ignore[method-assign]
        return None


def desks_of(app: TinyJobs, name: str = "app") -> Desks:
    """The one desk of an app, whose store is set up when it is first asked for."""
    target = AppTarget(name, app)

    @cache
    def set_up() -> None:
        app.setup()

    def desk() -> Desk:
        set_up()
        return Desk(alias=name, target=target, mask=app.mask, is_networked=target.store.capabilities.loop_bound)

    return lambda: {name: desk}


def _without_body(response: HttpResponseBase) -> HttpResponse:
    """The answer to HEAD, which not every server cuts off by itself."""
    length = response.headers.get("Content-Length") or str(len(getattr(response, "content", b"")))
    bare = HttpResponse(status=response.status_code, headers={**response.headers, "Content-Length": length})
    bare.cookies = response.cookies
    response.close()
    return bare


def _below(prefix: str, patterns: Sequence[URLPattern]) -> list[URLPattern]:
    return [path(prefix + str(pattern.pattern), pattern.callback, name=pattern.name) for pattern in patterns]


def _to_overview(request: HttpRequest) -> HttpResponse:
    return HttpResponseRedirect(reverse("admin:tinyjobs_overview"))


def _static(request: HttpRequest, path: str) -> HttpResponse:
    """The style sheets and scripts of the pages, and of the admin whose frame they have."""
    if not path.startswith(("admin/", "tinyjobs/")) or ".." in path.split("/"):
        raise Http404  # a search for what is outside the folders would be logged as an attack
    if request.method not in ("GET", "HEAD"):
        raise PermissionDenied
    return serve(request, path, insecure=True)  # type: ignore[return-value]
