"""The dashboard behind a real proxy that ends TLS: in the admin and alone, at the root and below a prefix."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from socketserver import ThreadingMixIn
from threading import Thread
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import httpx
import pytest
from django.contrib.auth.models import User
from django.core.handlers.wsgi import WSGIHandler

from tests.browser.alone import NAME, PREFIX, Shop
from tests.dashboard.conftest import store, stored
from tests.servers.fixtures import skipping_what_is_missing
from tests.servers.tls import Certificate, TlsProxy, certify
from tests.taskbackend.shop import tasks
from tinyjobs.core.inline import finish
from tinyjobs.core.status import JobStatus
from tinyjobs.dashboard import wsgi

#: As a browser names it, at the usual port.
SITE = f"https://{NAME}"


def in_the_admin(test):
    """Marks a test that needs the usual site, whatever store its jobs are in."""
    return pytest.mark.sqlite(pytest.mark.django_db(transaction=True)(test))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    with skipping_what_is_missing():
        return certify(tmp_path_factory.mktemp("tls"), NAME)


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Iterator[Shop]:
    with Shop(tmp_path_factory.mktemp("shop")) as made:
        yield made


class Server(ThreadingMixIn, WSGIServer):
    """Answers in threads, since a browser opens connections for later."""


@pytest.fixture
def serve():
    """Serves an application in this process, with its settings of the moment; its address."""
    with ExitStack() as stack:

        def start(application):
            server = stack.enter_context(make_server("127.0.0.1", 0, application, Server, handler_class=Quiet))
            Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            stack.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_port}"

        yield start


class Quiet(WSGIRequestHandler):
    def log_message(self, *args):
        pass


class Visitor:
    """A browser on the other side of a proxy, as far as a server can tell: cookies, and where a form came from."""

    def __init__(self, proxy: TlsProxy, certificate: Certificate) -> None:
        self.client = httpx.Client(
            base_url=f"https://127.0.0.1:{proxy.port}",
            headers={"Host": NAME},
            verify=certificate.for_client(),
            timeout=120.0,  # on a loaded machine the first page of a server takes long
        )

    def get(self, path):
        return self._ask("GET", path)

    def post(self, form, path, *, origin: str | None = SITE, referer: str | None = None, **fields):
        """Send a form that stands on a page, or says that it does on another."""
        page = self.get(form)
        assert page.status_code == 200, page.text
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        told = {"Referer": referer or f"{SITE}{form}", **({} if origin is None else {"Origin": origin})}
        return self._ask("POST", path, headers=told, data={"csrfmiddlewaretoken": token[1], **fields})

    def cancel(self, below, job, **more):
        """Press the button of that page and say yes."""
        fields = {"action": "cancel", "_selected_action": job, "confirmed": "yes"}
        return self.post(f"{below}/tinyjobs/job/", f"{below}/tinyjobs/job/act/", **more, **fields)

    def _ask(self, method, path, **more):
        return self.client.request(method, path, extensions={"sni_hostname": NAME}, **more)


@pytest.fixture
def visit(certificate):
    """Puts a proxy before a server; whoever visits that by way of it."""
    with ExitStack() as stack:

        def enter(server, **options):
            proxy = stack.enter_context(TlsProxy(server, certificate, **options))
            visitor = Visitor(proxy, certificate)
            stack.enter_context(visitor.client)
            return visitor

        yield enter


# --- in the admin ---------------------------------------------------------------------------------------------------


@pytest.fixture
def secured(settings):
    """A project's settings for a proxy that ends TLS, as Django's documentation has them."""
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    settings.SECURE_SSL_REDIRECT = settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = True
    settings.ALLOWED_HOSTS = [NAME]
    return settings


@pytest.fixture
def root(db):
    User.objects.create_superuser("root", password="of the test")


def log_in(visitor):
    form = "/admin/login/?next=/admin/"
    return visitor.post(form, form, username="root", password="of the test").status_code


@in_the_admin
@pytest.mark.parametrize("host", ["kept", "forwarded", "neither"])
def test_actions_in_the_admin_work(serve, secured, root, visit, host):
    if host == "forwarded":
        secured.USE_X_FORWARDED_HOST = True
    if host == "neither":
        secured.ALLOWED_HOSTS, secured.CSRF_TRUSTED_ORIGINS = ["127.0.0.1"], [SITE]
    visitor = visit(serve(WSGIHandler()), keeps_host=host == "kept")
    assert log_in(visitor) == 302
    assert {cookie.name: cookie.secure for cookie in visitor.client.cookies.jar} == {
        "sessionid": True,
        "csrftoken": True,
    }
    job, schedule = tasks.noop.enqueue().id, "nightly"
    answer = visitor.cancel("/admin", job)
    assert (answer.status_code, stored(job).status) == (302, JobStatus.CANCELLED)
    assert answer.headers["Location"].startswith("/admin/tinyjobs/job/")
    assert f"1 job: cancelled ({job})" in visitor.get(answer.headers["Location"]).text
    made = {"name": schedule, "task": tasks.noop.module_path, "cron": "0 3 * * *", "misfire": "skip"}
    form = "/admin/tinyjobs/schedule/add/"
    assert visitor.post(form, form, **made).status_code == 302
    for action in ("pause", "resume", "run"):
        list_of_all = "/admin/tinyjobs/schedule/"
        assert visitor.post(list_of_all, f"{list_of_all}act/", action=action, name=schedule).status_code == 302
    assert len(finish(store().list(status=JobStatus.QUEUED)).jobs) == 1


@in_the_admin
@pytest.mark.parametrize("origin", ["https://evil.example", f"http://{NAME}", "null"])
def test_forms_of_others_are_refused_in_the_admin(serve, secured, root, visit, origin):
    visitor = visit(serve(WSGIHandler()))
    log_in(visitor)
    job = tasks.noop.enqueue().id
    assert visitor.cancel("/admin", job, origin=origin).status_code == 403
    assert stored(job).status is JobStatus.QUEUED


@in_the_admin
def test_a_project_that_does_not_know_of_its_proxy_has_to_trust_the_origin(serve, settings, root, visit):
    assert log_in(visit(serve(WSGIHandler()))) == 403
    settings.CSRF_TRUSTED_ORIGINS = [SITE]
    visitor = visit(serve(WSGIHandler()))
    assert log_in(visitor) == 302
    job = tasks.noop.enqueue().id
    assert visitor.cancel("/admin", job).status_code == 302
    assert stored(job).status is JobStatus.CANCELLED


# --- alone ----------------------------------------------------------------------------------------------------------

#: Each server, how the proxy before it treats addresses, and below what a browser finds the pages.
PLACES = {
    "the command": ("command", {}, ""),
    "mounted, by ASGI": ("uvicorn", {"prefix": PREFIX, "strips": False}, PREFIX),
    "mounted, by WSGI": ("wsgiref", {"prefix": PREFIX, "strips": False}, PREFIX),
    "a prefix that the proxy takes off": ("behind", {"prefix": PREFIX}, PREFIX),
}
#: Those whose server believes the proxy that the request came by TLS.
KNOW_OF_TLS = {"mounted, by ASGI", "a prefix that the proxy takes off"}
each_place = pytest.mark.parametrize("place", PLACES)


@pytest.mark.slow
@each_place
@pytest.mark.parametrize("keeps_host", [True, False], ids=["host kept", "host of the server"])
def test_alone_pages_and_actions_work(shop, visit, place, keeps_host):
    kind, options, below = PLACES[place]
    visitor = visit(shop.site(kind), keeps_host=keeps_host, **options)
    shop.empty()
    job = shop.app.send("shop.add").id
    answer = visitor.get(f"{below}/")
    assert (answer.status_code, answer.headers["Location"]) == (302, f"{below}/tinyjobs/")
    for page in ("", "job/", f"job/{job}/", "schedule/", "schedule/add/", "queues/", "workers/"):
        text = visitor.get(f"{below}/tinyjobs/{page}").text
        addresses = set(re.findall(r'(?:href|src|action)="([^"#?]+)', text))
        assert addresses and all(address.startswith(f"{below}/") for address in addresses), addresses
        for address in addresses:
            if not address.endswith("/act/"):
                assert visitor.get(address).status_code in (200, 302), address
    answer = visitor.cancel(below, job)
    assert answer.status_code == 302 and answer.headers["Location"].startswith(f"{below}/tinyjobs/job/")
    assert shop.app.get(job).status is JobStatus.CANCELLED
    assert f"1 job: cancelled ({job})" in visitor.get(answer.headers["Location"]).text
    form = f"{below}/tinyjobs/schedule/add/"
    made = {"name": "nightly", "task": "shop.add", "cron": "0 3 * * *", "misfire": "skip"}
    assert visitor.post(form, form, **made).status_code == 302
    list_of_all = f"{below}/tinyjobs/schedule/"
    assert visitor.post(list_of_all, f"{list_of_all}act/", action="pause", name="nightly").status_code == 302
    assert shop.schedule("nightly").is_paused


@pytest.mark.slow
@each_place
def test_alone_forms_of_others_are_refused(shop, visit, place):
    kind, options, below = PLACES[place]
    visitor = visit(shop.site(kind), **options)
    job = shop.app.send("shop.add").id
    for origin in ("https://evil.example", f"{SITE}:8443", f"https://{NAME}.evil.example", "null"):
        assert visitor.cancel(below, job, origin=origin).status_code == 403
    # An old browser names the page alone. Whether that is asked depends on whether the server knows of TLS.
    other = visitor.cancel(below, job, origin=None, referer="https://evil.example/")
    assert other.status_code == (403 if place in KNOW_OF_TLS else 302)
    assert visitor.cancel(below, job, origin=None).status_code == 302


@pytest.mark.slow
def test_alone_a_proxy_with_a_name_that_it_was_not_told_of(shop, visit):
    server = shop.start("command")
    job = shop.app.send("shop.add").id
    assert visit(server).get("/tinyjobs/").status_code == 400
    # The server is asked by its own name, and the form is from a page of another.
    visitor = visit(server, keeps_host=False)
    assert visitor.get("/tinyjobs/").status_code == 200
    assert visitor.cancel("", job).status_code == 403
    assert shop.app.get(job).status is JobStatus.QUEUED


@pytest.mark.parametrize(
    ("is_asked_for", "believes", "is_secure"), [(True, False, True), (False, True, True), (False, False, False)]
)
def test_alone_cookies_are_for_tls_where_that_is_known(shop, serve, visit, settings, is_asked_for, believes, is_secure):
    """By the settings of a Django, or by what the proxy says, if that is believed."""
    settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = is_asked_for
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if believes else None
    job = shop.app.send("shop.add").id
    visitor = visit(serve(wsgi(shop.app, hosts=[NAME])))
    assert visitor.cancel("", job, origin="https://evil.example").status_code == 403
    assert visitor.cancel("", job).status_code == 302
    assert {cookie.name: cookie.secure for cookie in visitor.client.cookies.jar} == {
        "csrftoken": is_secure,
        "messages": is_secure,
    }
    assert shop.app.get(job).status is JobStatus.CANCELLED
