"""The dashboard without an admin: as a command, as WSGI and ASGI applications at any prefix, and what it refuses."""

import asyncio
import io
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from http.cookies import SimpleCookie
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import httpx
import pytest
from django.db import connections
from django.test import override_settings

from tests.cli.processes import ROOT, Program
from tinyjobs import TinyJobs
from tinyjobs.core.errors import ConfigurationError
from tinyjobs.core.status import JobStatus
from tinyjobs.dashboard import asgi, wsgi

PROGRAM = """\
from tinyjobs import TinyJobs

app = TinyJobs({url!r})


@app.task(name="shop.add", cron="0 3 * * *")
def add(one=1, two=2):
    return one + two
"""


@pytest.fixture(params=["sqlite", pytest.param("postgres_url", id="postgres"), pytest.param("redis_url", id="redis")])
def url(request, tmp_path):
    """Of an empty store."""
    return f"sqlite:///{tmp_path}/jobs.db" if request.param == "sqlite" else request.getfixturevalue(request.param)


@pytest.fixture(autouse=True)
def without_connections(django_db_blocker):
    """What tests before have left open would be looked after at the beginning of each request."""
    with django_db_blocker.unblock():
        connections.close_all()


@pytest.fixture
def app(tmp_path):
    made = TinyJobs(f"sqlite:///{tmp_path}/jobs.db")
    made.task(name="shop.add", cron="0 3 * * *")(lambda one=1, two=2: one + two)
    with made:
        yield made


class Caller:
    """A WSGI application as a browser uses it, cookies and all."""

    def __init__(self, application, prefix="", host="localhost"):
        self.application, self.prefix, self.host = application, prefix, host
        self.cookies = SimpleCookie()

    def get(self, path, **more):
        return self._ask("GET", path, **more)

    def head(self, path):
        return self._ask("HEAD", path)

    def post(self, path, headers=None, **fields):
        """With the token of a form, as a page gives it."""
        page = self.get("/tinyjobs/schedule/").text
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        return self._ask("POST", path, {"csrfmiddlewaretoken": token[1] if token else "", **fields}, **headers or {})

    def forge(self, path, **fields):
        return self._ask("POST", path, fields)

    def _ask(self, method, path, fields=None, **headers):
        path, _, query = path.partition("?")
        body = urlencode(fields or {}, doseq=True).encode()
        environ = {
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": self.prefix,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "80",
            "HTTP_HOST": self.host,
            "HTTP_COOKIE": "; ".join(f"{name}={item.value}" for name, item in self.cookies.items()),
            "CONTENT_TYPE": "application/x-www-form-urlencoded",
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": sys.stderr,
            "wsgi.url_scheme": "http",
            **headers,
        }
        told = []
        answer = self.application(environ, lambda status, headers: told.append((status, headers)))
        text = b"".join(answer).decode()
        ((status, headers),) = told
        for name, value in headers:
            if name == "Set-Cookie":
                self.cookies.load(value)
        return Answer(int(status.split()[0]), dict(headers), text)


class Answer:
    def __init__(self, status, headers, text):
        self.status, self.headers, self.text = status, headers, text


BELOW_PREFIX = override_settings(STORAGES={"staticfiles": {"BACKEND": "tinyjobs.dashboard.minimal.StaticBelowPrefix"}})


@pytest.mark.parametrize("prefix", ["", "/ops/jobs"])
@BELOW_PREFIX
def test_every_page_and_all_they_load_is_below_the_prefix(app, prefix):
    job = app.send("shop.add", (3, 4))
    caller = Caller(wsgi(app), prefix)
    assert caller.get("/").headers["Location"] in ("tinyjobs/", f"{prefix}/tinyjobs/")
    pages = ["", "job/", f"job/{job.id}/", "schedule/", "schedule/shop.add/change/", "queues/", "workers/"]
    for page in pages:
        answer = caller.get(f"/tinyjobs/{page}")
        assert answer.status == 200, answer.text
        addresses = re.findall(r'(?:href|src|action)="([^"#?]+)', answer.text)
        assert addresses and all(address.startswith(f"{prefix}/") for address in addresses), addresses
        for address in {address for address in addresses if "/static/" in address}:
            assert caller.get(address.removeprefix(prefix)).status == 200, address
        assert "unsafe" not in answer.headers["Content-Security-Policy"]
        assert (caller.head(f"/tinyjobs/{page}").status, caller.head(f"/tinyjobs/{page}").text) == (200, "")
    assert "log out" not in answer.text.lower()
    assert caller.get("/tinyjobs/api/jobs/").headers["Content-Type"] == "application/json"
    assert caller.get("/nothing").status == 404
    assert caller.get("/static/../alone.py").status == 404


def test_actions_take_the_token_of_a_form_and_tell_what_they_did(app):
    job, other = app.send("shop.add"), app.send("shop.add")
    caller = Caller(wsgi(app), "/jobs")
    fields = {"action": "cancel", "_selected_action": [job.id], "confirmed": "yes"}
    assert caller.forge("/tinyjobs/job/act/", **fields).status == 403
    assert app.get(job).status is JobStatus.QUEUED
    answer = caller.post("/tinyjobs/job/act/", **fields)
    assert answer.status == 302 and answer.headers["Location"].startswith("/jobs/tinyjobs/job/")
    assert app.get(job).status is JobStatus.CANCELLED and app.get(other).status is JobStatus.QUEUED
    assert "1 job: cancelled" in caller.get("/tinyjobs/job/").text
    assert "1 job: cancelled" not in caller.get("/tinyjobs/job/").text, "a reload says nothing twice"
    assert caller.get("/tinyjobs/job/act/").status == 405
    assert caller.post("/tinyjobs/schedule/act/", action="run", name="shop.add").status == 302
    assert len(app.list(status="queued").jobs) == 2


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example", "", "a b", "[::1].evil"])
@override_settings(ALLOWED_HOSTS=[])
def test_a_host_by_which_another_site_could_reach_it_is_refused(app, host):
    application = wsgi(app, hosts=["jobs.example.com"])
    refused = Caller(application, host=host).get("/tinyjobs/")
    assert refused.status == 400
    assert "which is not allowed" in refused.text and "--allowed-host" in refused.text


@pytest.mark.parametrize("fine", ["localhost:8070", "127.0.0.1:8070", "[::1]:8070", "jobs.example.com"])
@override_settings(ALLOWED_HOSTS=[])
def test_a_host_that_is_allowed_is_served_forms_and_all(app, fine):
    caller = Caller(wsgi(app, hosts=["jobs.example.com"]), host=fine)
    assert caller.get("/tinyjobs/").status == 200
    assert caller.post("/tinyjobs/schedule/act/", action="pause", name="shop.add").status == 302


@override_settings(ALLOWED_HOSTS=["*"])
def test_what_the_settings_allow_is_not_allowed_here(app):
    """A project behind a proxy may allow any host, since it has logins."""
    assert Caller(wsgi(app), host="evil.example").get("/tinyjobs/").status == 400
    assert Caller(wsgi(app, hosts=["*"]), host="evil.example").get("/tinyjobs/").status == 200


@pytest.mark.parametrize(
    ("host", "origin", "is_fine"),
    [
        ("jobs.example.com", "https://jobs.example.com", True),
        ("jobs.example.com", "http://jobs.example.com", True),
        ("JOBS.example.com:8443", "https://jobs.example.com:8443", True),
        ("127.0.0.1:8070", "https://jobs.example.com", True),  # a proxy that asks by another name
        ("a.sub.example", "https://a.sub.example", True),
        ("jobs.example.com", "https://jobs.example.com:8443", False),
        ("jobs.example.com", "https://evil.example", False),
        ("jobs.example.com", "https://jobs.example.com.evil.example", False),
        ("jobs.example.com", "https://jobs.example.com@evil.example", False),
        ("jobs.example.com", "ftp://jobs.example.com", False),
        ("jobs.example.com", "null", False),
        ("jobs.example.com", "https://[", False),
        ("jobs.example.com", "", False),
        ("localhost:8070", "http://localhost:8070", True),
        ("localhost:8070", "http://localhost:3000", False),
        ("localhost:8070", "http://localhost", False),
        ("localhost:8070", "https://localhost:8070", False),
    ],
)
def test_forms_behind_a_proxy_that_ends_tls(app, host, origin, is_fine):
    caller = Caller(wsgi(app, hosts=["jobs.example.com", ".sub.example"]), host=host)
    answer = caller.post("/tinyjobs/schedule/act/", {"HTTP_ORIGIN": origin}, action="pause", name="shop.add")
    assert answer.status == (302 if is_fine else 403)
    assert any(state.is_paused for state in app.schedules()) is is_fine


@pytest.mark.parametrize(
    ("origin", "is_fine"),
    [("https://any.example", True), ("http://any.example", True), ("https://evil.example", False)],
)
def test_any_host_is_not_any_origin(app, origin, is_fine):
    caller = Caller(wsgi(app, hosts=["*"]), host="any.example")
    answer = caller.post("/tinyjobs/schedule/act/", {"HTTP_ORIGIN": origin}, action="pause", name="shop.add")
    assert answer.status == (302 if is_fine else 403)


@pytest.mark.parametrize(
    ("referer", "is_fine"),
    [
        ("https://jobs.example.com/tinyjobs/", True),
        ("http://jobs.example.com/tinyjobs/", False),
        ("https://evil.example/", False),
        ("https://[", False),
        ("", False),
    ],
)
def test_where_a_form_over_tls_came_from(app, referer, is_fine):
    caller = Caller(wsgi(app, hosts=["jobs.example.com"]), host="127.0.0.1:8070")
    told = {"HTTP_REFERER": referer, "wsgi.url_scheme": "https"}
    answer = caller.post("/tinyjobs/schedule/act/", told, action="pause", name="shop.add")
    assert answer.status == (302 if is_fine else 403)


@pytest.mark.parametrize(("scheme", "mark"), [("http", ""), ("https", True)])
def test_cookies_of_a_request_over_tls_are_for_such_alone(app, scheme, mark):
    caller = Caller(wsgi(app, hosts=["jobs.example.com"]), host="jobs.example.com")
    told = {"HTTP_REFERER": f"{scheme}://jobs.example.com/", "wsgi.url_scheme": scheme}
    assert caller.get("/tinyjobs/schedule/", **told).status == 200
    assert caller.post("/tinyjobs/schedule/act/", told, action="pause", name="shop.add").status == 302
    caller.get("/tinyjobs/schedule/add/", **told)
    assert {name: item["secure"] for name, item in caller.cookies.items()} == {"csrftoken": mark, "messages": mark}


@pytest.mark.parametrize("prefix", ["", "/jobs"])
def test_an_address_without_its_last_slash_leads_to_the_one_with_it(app, prefix):
    caller = Caller(wsgi(app), prefix)
    for path in ("", "/"):
        answer = caller.get(path)
        assert (answer.status, answer.headers["Location"]) == (302, f"{prefix}/tinyjobs/")
    for path in ("/tinyjobs", "/tinyjobs/job", "/tinyjobs/schedule/a/change"):
        answer = caller.get(f"{path}?status=a%26b")
        assert (answer.status, answer.headers["Location"]) == (301, f"{prefix}{path}/?status=a%26b")
    for path in ("/nothing", "//evil.example", "/static/admin/nothing"):
        assert caller.get(path).status == 404
    assert caller.post("/tinyjobs/job/act").status == 404


def test_an_asgi_mount_without_its_last_slash(app):
    async def ask():
        transport = httpx.ASGITransport(asgi(app), root_path="/jobs")
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return [await client.get(path) for path in ("/jobs", "/jobs/", "/jobs/tinyjobs")]

    answers = asyncio.run(ask())
    assert [answer.status_code for answer in answers] == [302, 302, 301]
    assert {answer.headers["Location"] for answer in answers} == {"/jobs/tinyjobs/"}


@pytest.mark.parametrize("path", ["admin/../../../x", "tinyjobs/../../x", "admin//etc/passwd", "admin/\x00"])
def test_no_file_but_those_of_the_pages(app, caplog, path):
    assert Caller(wsgi(app)).get(f"/static/{path}").status == 404
    assert not [record for record in caplog.records if record.exc_info or record.levelname == "ERROR"]


def test_a_form_sent_from_another_site_is_refused(app):
    caller = Caller(wsgi(app))
    page = caller.get("/tinyjobs/schedule/").text
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)[1]
    fields = {"action": "pause", "name": "shop.add", "csrfmiddlewaretoken": token}
    refused = caller._ask("POST", "/tinyjobs/schedule/act/", fields, HTTP_ORIGIN="http://evil.example")
    assert refused.status == 403
    assert not any(state.is_paused for state in app.schedules())


@BELOW_PREFIX
def test_asgi_at_a_root_path_answers_many_at_a_time(app):
    for number in range(5):
        app.send("shop.add", (number, 1))

    async def ask():
        transport = httpx.ASGITransport(asgi(app), root_path="/ops")
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            answers = await asyncio.gather(*(client.get("/ops/tinyjobs/api/jobs/") for _ in range(20)))
            page = await client.get("/ops/tinyjobs/")
            return answers, page

    answers, page = asyncio.run(ask())
    assert {answer.status_code for answer in answers} == {200}
    assert {len(answer.json()["jobs"]) for answer in answers} == {5}
    assert page.status_code == 200 and '"/ops/static/tinyjobs/dashboard.css"' in page.text


def test_a_django_that_lacks_something_for_the_pages_is_told_what(app, settings):
    settings.CSRF_USE_SESSIONS = True
    with pytest.raises(ConfigurationError, match="CSRF_USE_SESSIONS"):
        wsgi(app)


# --- as a command, in a process that has no Django yet ----------------------------------------------------------------


@pytest.fixture
def serve(tmp_path):
    """Starts `tinyjobs dashboard` on a free port; the process, and where it serves."""
    running = []

    def start(url, *flags):
        (tmp_path / "shop.py").write_text(PROGRAM.format(url=url))
        command = [sys.executable, "-m", "tinyjobs", "dashboard", "--app", "shop:app", "--port", "0", *flags]
        program = Program(command, tmp_path).__enter__()
        running.append(program)
        return program, program.wait_for(r"The dashboard of shop:app, .*: (http://\S+)")[1]

    yield start
    for program in running:
        program.__exit__(None, None, None)


def read(url, **headers):
    try:
        with urlopen(Request(url, headers=headers), timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def server_of(url):
    """What the answer says of the program that sent it."""
    try:
        with urlopen(url, timeout=60) as answer:
            return answer.headers.get_all("Server")
    except HTTPError as error:
        return error.headers.get_all("Server")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_told_to_stop(serve, url, number):
    program, address = serve(url)
    with TinyJobs(url) as sender:
        sender.send("shop.add", (1, 2))
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(lambda page: read(f"{address}tinyjobs/{page}"), ["", "job/", "queues/"] * 8))
        assert {status for status, _ in answers} == {200}
        for page in ("", "nothing/"):
            assert server_of(f"{address}tinyjobs/{page}") == ["tinyjobs"]
        assert "shop.add" in answers[1][1]
    assert read(f"{address}tinyjobs/", Host="evil.example")[0] == 400
    program.signal(number)
    assert program.ends() == 0


def test_a_port_that_is_taken_is_refused_with_the_remedy(serve, tmp_path):
    _, address = serve(f"sqlite:///{tmp_path}/jobs.db")
    port = address.rsplit(":", 1)[1].strip("/")
    ended = subprocess.run(
        [sys.executable, "-m", "tinyjobs", "dashboard", "--app", "shop:app", "--port", port],
        cwd=tmp_path,
        env={"PATH": "", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode != 0
    assert f"--port {port}: another program listens there" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_address_that_others_reach_is_warned_of(serve, tmp_path):
    program, _ = serve(f"sqlite:///{tmp_path}/jobs.db", "--host", "0.0.0.0", "--allowed-host", "jobs.example.com")
    program.wait_for("There is no login")
