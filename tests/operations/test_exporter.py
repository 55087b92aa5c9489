"""The exporter: what a scrape gets, whatever the store or the client does, and the port."""

import contextlib
import http.client
import socket
import subprocess
import sys
import threading
import time
from urllib.request import urlopen

import pytest

from tests.operations.test_metrics import read
from tinyjobs.app.facade import TinyJobs
from tinyjobs.core.clock import FrozenClock
from tinyjobs.core.errors import ConfigurationError, StoreUnavailableError
from tinyjobs.core.job import QueueStats, Stats
from tinyjobs.operations import exporter as exporter_module
from tinyjobs.operations.exporter import Exporter, Figures
from tinyjobs.operations.metrics import CONTENT_TYPE, Metrics
from tinyjobs.operations.timely import GIVEN_UP_AFTER

PATIENCE = 60.0
STATS = Stats(now=10.0, queues=[QueueStats(name="mail", ready=1, oldest_due=3.0)])


@pytest.fixture
def serve():
    """Starts exporters on a free port; `read` answers at once unless told otherwise."""
    running = []

    def start(read=lambda: STATS, host="127.0.0.1", port=0, metrics=None):
        running.append(Exporter(metrics or Metrics(), read, host, port).__enter__())
        return running[-1]

    yield start
    for one in running:
        one.__exit__(None, None, None)


def ask(exporter, method="GET", path="/metrics"):
    host, port = exporter._server.server_address[:2]
    connection = http.client.HTTPConnection(host, port, timeout=PATIENCE)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer, answer.read().decode()
    finally:
        connection.close()


def test_a_scrape(serve):
    answer, text = ask(serve())
    assert answer.status == 200
    assert answer.headers["Content-Type"] == CONTENT_TYPE
    samples = read(text)
    assert samples["tinyjobs_store_up",] == 1
    assert samples["tinyjobs_store_oldest_due_seconds", "mail"] == 7


def test_the_url_is_where_it_answers(serve):
    with urlopen(serve().url, timeout=PATIENCE) as answer:
        assert b"tinyjobs_info" in answer.read()


def test_a_scrape_asks_the_store_once(serve):
    asked = []
    exporter = serve(lambda: asked.append(1) or STATS)
    for _ in range(3):
        ask(exporter)
    assert len(asked) == 3
    ask(exporter, path="/")
    assert len(asked) == 3


@pytest.mark.parametrize("error", [StoreUnavailableError("gone"), ValueError("a bug")])
def test_a_store_that_cannot_answer_costs_the_gauges_alone(serve, caplog, error):
    def fail():
        raise error

    exporter = serve(fail)
    for _ in range(3):
        answer, text = ask(exporter)
        samples = read(text)
        assert answer.status == 200
        assert samples["tinyjobs_store_up",] == 0
        assert ("tinyjobs_store_expired_leases",) not in samples
    # The worker itself tells of an outage; of anything else it is told here, once.
    assert len(caplog.records) == (0 if isinstance(error, StoreUnavailableError) else 1)


def test_a_store_that_does_not_answer_in_time_is_not_waited_for_nor_asked_twice(caplog):
    gate, began, asked = threading.Event(), threading.Event(), []

    def slow():
        asked.append(1)
        began.set()
        gate.wait()
        return STATS

    figures = Figures(slow, patience=0.05)
    try:
        assert [figures.ask() for _ in range(3)] == [None, None, None]
        assert began.wait(PATIENCE)
        assert len(asked) == 1
        gate.set()
        figures._patience = PATIENCE
        assert figures.ask() is STATS
        assert figures.ask() is STATS
        # Nothing was left to be asked in the line of those that had given up.
        assert len(asked) <= 3
    finally:
        gate.set()
        figures.close()
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_question_that_is_never_answered_is_asked_anew_after_a_while():
    gate, began, asked, clock = threading.Event(), threading.Event(), [], FrozenClock()

    def lost_at_first():
        asked.append(1)
        if len(asked) == 1:
            began.set()
            gate.wait(PATIENCE)
        return STATS

    figures = Figures(lost_at_first, patience=0.05, clock=clock)
    try:
        clock.advance(1)
        assert [figures.ask() for _ in range(2)] == [None, None]
        assert began.wait(PATIENCE)
        figures._patience = PATIENCE
        clock.advance(GIVEN_UP_AFTER + 1)
        assert figures.ask() is STATS
        assert len(asked) == 2
    finally:
        gate.set()
        figures.close()


def test_scrapes_at_once_share_one_question():
    gate, began, asked = threading.Event(), threading.Event(), []

    def slow():
        asked.append(1)
        began.set()
        gate.wait()
        return STATS

    figures = Figures(slow, patience=PATIENCE)
    found = []
    threads = [threading.Thread(target=lambda: found.append(figures.ask())) for _ in range(4)]
    threads[0].start()
    assert began.wait(PATIENCE)
    for thread in threads[1:]:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join(PATIENCE)
    figures.close()
    # Those that came after the answer ask anew; nobody asks beside a question that is open.
    assert found == [STATS] * 4
    assert len(asked) <= 4


def test_head_is_answered_without_a_body(serve):
    answer, text = ask(serve(), "HEAD")
    assert (answer.status, text) == (200, "")
    assert int(answer.headers["Content-Length"]) > 100


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_another_method_is_refused_before_the_store_is_asked(serve, method):
    asked = []
    answer, _ = ask(serve(lambda: asked.append(1) or STATS), method)
    assert (answer.status, answer.headers["Allow"], asked) == (405, "GET, HEAD", [])


@pytest.mark.parametrize("path", ["/", "/metrics/", "/metricsx", "/../metrics"])
def test_another_path_says_where_the_metrics_are(serve, path):
    answer, text = ask(serve(), path=path)
    assert answer.status == 404
    assert "/metrics" in text


def test_a_query_is_no_other_path(serve):
    assert ask(serve(), path="/metrics?name[]=x")[0].status == 200


def test_a_client_that_says_nothing_keeps_nobody_else_waiting(serve):
    exporter = serve()
    silent = [socket.create_connection(exporter._server.server_address[:2]) for _ in range(3)]
    try:
        assert ask(exporter)[0].status == 200
    finally:
        for one in silent:
            one.close()


def test_only_so_many_are_answered_at_once(serve, monkeypatch):
    monkeypatch.setattr(exporter_module._Server, "most_at_once", 2)
    exporter = serve()
    address = exporter._server.server_address[:2]
    silent = [socket.create_connection(address) for _ in range(2)]
    try:
        # Accepted in their order, so both have their place by the time that this one is looked at.
        with socket.create_connection(address, timeout=PATIENCE) as late, contextlib.suppress(ConnectionError):
            late.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert late.recv(1) == b""
    finally:
        for one in silent:
            one.close()


def test_clients_that_drip_hold_their_places_for_a_while_only(serve, monkeypatch):
    monkeypatch.setattr(exporter_module._Server, "most_at_once", 2)
    monkeypatch.setattr(exporter_module._Server, "longest", 0.2)
    exporter = serve()
    is_over = threading.Event()

    def drip(client):
        # Each byte comes within the time that a silent client has.
        with client, contextlib.suppress(OSError):
            client.sendall(b"GET /metrics HTTP/1.0\r\nX: ")
            while not is_over.wait(0.02):
                client.sendall(b"x")

    address = exporter._server.server_address[:2]
    clients = [threading.Thread(target=drip, args=(socket.create_connection(address),)) for _ in range(2)]
    try:
        for one in clients:
            one.start()
        end = time.monotonic() + PATIENCE
        status = None
        while status is None and time.monotonic() < end:
            with contextlib.suppress(OSError, http.client.HTTPException):
                status = ask(exporter)[0].status
        assert status == 200
    finally:
        is_over.set()
        for one in clients:
            one.join()


def test_an_address_that_is_none_is_answered(serve):
    with socket.create_connection(serve()._server.server_address[:2], timeout=PATIENCE) as client:
        client.sendall(b"GET http://[/metrics HTTP/1.0\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.0 404"


def test_a_client_that_leaves_is_no_trouble(serve, capfd):
    exporter = serve()
    for request in (b"GET /metrics HTTP/1.0\r\n\r\n", b"\xff\x00 nonsense\r\n\r\n", b"GET"):
        with socket.create_connection(exporter._server.server_address[:2]) as client:
            client.sendall(request)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    assert ask(exporter)[0].status == 200
    assert capfd.readouterr().err == ""


# --- the port ---------------------------------------------------------------------------------------------------------


def test_a_taken_port_is_refused(serve):
    taken = serve()._server.server_address[1]
    with pytest.raises(ConfigurationError, match=f"--metrics-port {taken}: another program"):
        Exporter(Metrics(), lambda: STATS, "127.0.0.1", taken)


def test_a_taken_port_is_not_tried_on_the_other_family(serve, monkeypatch):
    taken = serve()._server.server_address[1]
    both = [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", taken, 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", taken)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
    with pytest.raises(ConfigurationError, match="another program"):
        Exporter(Metrics(), lambda: STATS, "localhost", taken)


def test_of_a_host_name_ipv4_comes_first(serve, monkeypatch):
    both = [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 0, 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
    assert serve(host="localhost").url.startswith("http://127.0.0.1:")


def test_an_address_that_is_none_of_this_machine():
    with pytest.raises(ConfigurationError, match=r"--metrics-host 192\.0\.2\.1"):
        Exporter(Metrics(), lambda: STATS, "192.0.2.1", 0)


def test_a_restarted_worker_has_its_port_back_at_once(serve):
    exporter = serve()
    address = exporter._server.server_address[:2]
    with socket.create_connection(address) as client:
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        while client.recv(65_536):
            pass
    exporter.__exit__(None, None, None)
    # The connection that the server has closed lingers in the system, on that very port.
    again = serve(port=address[1])
    assert ask(again)[0].status == 200


# --- in a worker ------------------------------------------------------------------------------------------------------


def test_nothing_of_a_web_server_is_loaded_without_it():
    code = "import sys, tinyjobs.cli.main, tinyjobs.app.facade; sys.exit('http.server' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=PATIENCE).returncode == 0


PROGRAM = """
from tinyjobs import TinyJobs

app = TinyJobs("sqlite:///jobs.db")

@app.task
def note():
    pass
"""


def test_a_worker_serves_its_metrics(tmp_path):
    (tmp_path / "work.py").write_text(PROGRAM)
    with TinyJobs(f"sqlite:///{tmp_path}/jobs.db") as app:
        command = [sys.executable, "-m", "tinyjobs", "worker", "--app", "work:app", "--metrics-port", "0"]
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as worker:
            try:
                url = next(line for line in worker.stdout if "metrics:" in line).split()[-1]
                app.send("work.note")
                samples = {}
                end = time.monotonic() + PATIENCE
                # The store knows of an end before this process counts it, and its figures are read before the counts.
                ended = (("tinyjobs_store_ended_jobs", "success"), ("tinyjobs_jobs_total", "work.note", "success"))
                while any(samples.get(name) != 1 for name in ended) and time.monotonic() < end:
                    with urlopen(url, timeout=PATIENCE) as answer:
                        samples = read(answer.read().decode())
            finally:
                worker.terminate()
            worker.stdout.read()
    assert samples["tinyjobs_jobs_total", "work.note", "success"] == 1
    assert samples["tinyjobs_store_up",] == 1
    assert samples["tinyjobs_store_ended_jobs", "success"] == 1


def test_a_worker_whose_port_is_taken_does_not_begin(tmp_path, serve):
    (tmp_path / "work.py").write_text(PROGRAM)
    port = serve()._server.server_address[1]
    command = [sys.executable, "-m", "tinyjobs", "worker", "--app", "work:app", "--metrics-port", str(port)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2
    assert f"--metrics-port {port}: another program listens there" in done.stderr
    assert "Worker" not in done.stdout


@pytest.mark.parametrize("port", ["-1", "65536", "x", "1.5", "²"])
def test_a_port_that_is_none(port, capsys):
    from tinyjobs.cli.main import main

    with pytest.raises(SystemExit):
        main(["worker", "--app", "work:app", f"--metrics-port={port}"])
    assert "is not a port" in capsys.readouterr().err
