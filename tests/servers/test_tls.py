"""The proxy that ends TLS, before a server that says what it was asked."""

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from tests.servers.fixtures import skipping_what_is_missing
from tests.servers.tls import TlsProxy, certify

NAME = "jobs.example.com"


class Told(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        told = {"path": self.path, "headers": dict(self.headers), "body": body.decode()}
        answer = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Told) as made:
        threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{made.server_port}"
        made.shutdown()


@pytest.fixture
def certificate(tmp_path):
    with skipping_what_is_missing():
        return certify(tmp_path, NAME)


def ask(proxy, certificate, method, path, name=NAME, **more):
    headers = {"Host": NAME, **more.pop("headers", {})}
    with httpx.Client(base_url=f"https://127.0.0.1:{proxy.port}", verify=certificate.for_client()) as client:
        return client.request(method, path, headers=headers, extensions={"sni_hostname": name}, **more)


def test_the_server_is_told_who_asked_for_what(server, certificate):
    with TlsProxy(server, certificate) as proxy:
        lies = {"X-Forwarded-Proto": "http", "x-forwarded-for": "192.0.2.1", "Forwarded": "proto=http", "X-Own": "1"}
        told = ask(proxy, certificate, "POST", "/a/b?c=d", content="x" * 200_000, headers=lies).json()
    assert (told["path"], told["body"]) == ("/a/b?c=d", "x" * 200_000)
    kept = {name.lower(): value for name, value in told["headers"].items()}
    assert (kept["host"], kept["x-forwarded-host"], kept["x-forwarded-proto"]) == (NAME, NAME, "https")
    assert (kept["x-forwarded-for"], kept["x-own"], "forwarded" in kept) == ("127.0.0.1", "1", False)


def test_one_below_a_prefix_that_names_the_server_as_itself(server, certificate):
    with TlsProxy(server, certificate, prefix="/ops", keeps_host=False) as proxy:
        told = ask(proxy, certificate, "GET", "/ops/a").json()
        assert (told["path"], told["headers"]["Host"]) == ("/a", server.removeprefix("http://"))
        assert told["headers"]["X-Forwarded-Host"] == NAME
        assert ask(proxy, certificate, "GET", "/opsa").status_code == 404
    with TlsProxy(server, certificate, prefix="/ops", strips=False) as proxy:
        assert ask(proxy, certificate, "GET", "/ops/a").json()["path"] == "/ops/a"


def test_only_who_trusts_the_certificate_gets_in(server, certificate):
    with TlsProxy(server, certificate) as proxy:
        with pytest.raises(httpx.ConnectError, match=r"(?i)certificate"):
            ask(proxy, certificate, "GET", "/", name="evil.example")
        with pytest.raises(httpx.ConnectError, match=r"(?i)certificate"):
            httpx.get(f"https://127.0.0.1:{proxy.port}/", verify=ssl.create_default_context())
