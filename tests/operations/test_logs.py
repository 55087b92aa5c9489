"""The log: what records carry, how they are written, and that trouble with logging never touches a job."""

import contextlib
import fcntl
import json
import logging
import logging.config
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import tinyjobs
from tests.docs.pages import ROOT, blocks, tables
from tinyjobs import JSONFormatter, TextFormatter, TinyJobs
from tinyjobs.cli.logs import CommandLog
from tinyjobs.cli.sink import BACKLOG, LineSink, sink_on
from tinyjobs.core.logs import LOGGERS

PATIENCE = 60.0
FACTS = {"job_id", "task", "queue", "attempt", "worker_id"}


def record(message="told", *args, level=logging.INFO, exc_info=None, **extra):
    logger = logging.getLogger("tinyjobs.worker")
    return logger.makeRecord("tinyjobs.worker", level, "file", 1, message, args, exc_info, extra=extra)


def as_json(given):
    text = JSONFormatter().format(given)
    assert "\n" not in text and text.isascii()
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def failing():
    try:
        raise ValueError("the café\x1b[2J")
    except ValueError:
        return sys.exc_info()


# --- the formatters ---------------------------------------------------------------------------------------------------


def test_a_line_of_json_has_the_record_and_its_fields():
    told = as_json(record("job %s", "7", job_id="7", attempt=2, will_retry=False, worker_id=None))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", told.pop("time"))
    assert list(told) == ["level", "logger", "message", "job_id", "attempt", "will_retry", "worker_id"]
    assert (told["level"], told["logger"], told["message"]) == ("INFO", "tinyjobs.worker", "job 7")
    assert (told["attempt"], told["will_retry"], told["worker_id"]) == (2, False, None)


@pytest.mark.parametrize("formatter", [JSONFormatter, TextFormatter])
def test_the_traceback_of_the_field_is_preferred(formatter):
    text = formatter().format(record(exc_info=failing(), traceback="the child's own\nValueError: it\n"))
    assert "the child's own" in text and "Traceback (most recent" not in text
    text = formatter().format(record(exc_info=failing()))
    assert "Traceback (most recent" in text and "caf" in text
    assert "raceback" not in formatter().format(record())


def test_a_line_of_text_has_its_traceback_below_and_steers_no_terminal():
    lines = TextFormatter().format(record("bad \x1b[2J\nnews", exc_info=failing(), level=logging.ERROR)).split("\n")
    assert lines[0].split(" ", 2)[2] == r"ERROR   bad \x1b[2J"
    assert lines[1] == "news"
    assert lines[2].startswith("Traceback")
    assert lines[-1] == r"ValueError: the café\x1b[2J"


class Unspeakable:
    def __repr__(self):
        raise RuntimeError("no text")

    __str__ = __repr__


CIRCLE: list = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        {1, 2},
        b"\xff",
        "half \ud800 a pair",
        CIRCLE,
        Unspeakable(),
        {"a": float("nan")},
        10**400,
        10**5_000,  # more digits than Python turns into text
    ],
    ids=lambda value: type(value).__name__,
)
def test_no_value_is_too_odd(value):
    assert "odd" in as_json(record(odd=value))
    assert as_json(record("%s", value))["message"]
    assert TextFormatter().format(record("%s", value))


@pytest.mark.parametrize("formatter", [JSONFormatter(), TextFormatter(), TextFormatter("%(absent)s")])
def test_a_record_that_is_wrong_is_written_all_the_same(formatter):
    assert "%d of it" in formatter.format(record("%d of it", "much"))
    assert "%s of %s" in formatter.format(record("%s of %s", 1))


def test_plain_values_stay_as_they_are():
    told = as_json(record(n=1, f=1.5, s="é", b=True, nothing=None, many=[1, {"a": 2}]))
    assert [told[name] for name in ("n", "f", "s", "b", "nothing", "many")] == [1, 1.5, "é", True, None, [1, {"a": 2}]]


def test_they_can_be_named_in_a_configuration(capsys):
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"json": {"()": "tinyjobs.JSONFormatter"}, "text": {"()": "tinyjobs.TextFormatter"}},
            "handlers": {"one": {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stdout"}},
            "loggers": {"test.of.formatters": {"handlers": ["one"], "propagate": False}},
        }
    )
    logger = logging.getLogger("test.of.formatters")
    logger.warning("told", extra={"order": 7})
    assert json.loads(capsys.readouterr().out)["order"] == 7


# --- what records carry -----------------------------------------------------------------------------------------------


@pytest.fixture
def app():
    with TinyJobs("memory://") as app:
        yield app


def run(app):
    while app.stats().queued_by_task:
        app.run_worker(until_empty=True, poll=0.01)


def test_the_records_of_a_jobs_life(app, caplog):
    caplog.set_level(logging.DEBUG, "tinyjobs")

    @app.task(name="good", queue="mail")
    def good():
        pass

    @app.task(name="bad", max_attempts=2, retry_base=0.001)
    def bad():
        raise ValueError("boom")

    sent = [good.enqueue().id, bad.enqueue().id]
    run(app)
    about = [entry for entry in caplog.records if getattr(entry, "job_id", None) in sent]
    assert all(set(vars(entry)) >= FACTS and entry.job_id in entry.getMessage() for entry in about)
    success, retry, failure = sorted(about, key=lambda entry: entry.levelno)
    assert (success.levelname, success.task, success.queue, success.attempt) == ("DEBUG", "good", "mail", 1)
    assert success.worker_id and success.duration_ms >= 0
    assert (retry.levelname, retry.will_retry, retry.attempt) == ("WARNING", True, 1)
    assert (retry.error, retry.error_message) == ("builtins.ValueError", "boom")
    assert not retry.exc_info and not hasattr(retry, "traceback")
    assert (failure.levelname, failure.will_retry, failure.attempt) == ("ERROR", False, 2)
    assert failure.traceback.rstrip().endswith("ValueError: boom")
    assert isinstance(failure.exc_info[1], ValueError)  # as error reporters read it
    assert failure.exc_info[2] is not None


def test_the_example_in_the_documentation_has_the_fields_there_are(app, caplog):
    @app.task(name="bad", max_attempts=2, retry_base=0.001)
    def bad():
        raise ConnectionError("refused")

    bad.enqueue()
    run(app)
    retry, failure = caplog.records
    (example,) = (block for block in blocks("docs/how-to/logging.md") if block.language == "json")
    assert list(json.loads(example.text)) == list(as_json(retry))
    rows = tables("docs/how-to/logging.md")["What records carry"]
    told = {name for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    assert told == set(as_json(failure)) - {"time", "level", "logger", "message"} | {"schedule"}


def test_every_logger_is_known():
    found = {
        name
        for path in Path(tinyjobs.__file__).parent.rglob("*.py")
        for name in re.findall(r'getLogger\("(tinyjobs[\w.]*)"\)', path.read_text("utf-8"))
    }
    assert found <= set(LOGGERS)


# --- handlers that are trouble ----------------------------------------------------------------------------------------


class Raising(logging.Handler):
    def __init__(self, error):
        super().__init__()
        self.error = error
        self.asked = 0

    def emit(self, record):
        self.asked += 1
        raise self.error


@pytest.fixture
def raising():
    @contextlib.contextmanager
    def on(name, error):
        handler, logger = Raising(error), logging.getLogger(name)
        level, propagates = logger.level, logger.propagate
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        try:
            yield handler
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagates

    return on


@pytest.mark.parametrize("error", [ValueError("a bug"), OSError("full"), RecursionError()])
def test_a_handler_that_raises_changes_nothing_for_jobs(app, raising, error, capsys):
    told = []
    app.on_job_failure(lambda job, error, will_retry: told.append(will_retry))

    @app.task(name="good", store_result=True)
    def good():
        return 1

    @app.task(name="bad", max_attempts=2, retry_base=0.001)
    def bad():
        raise KeyError

    jobs = [good.enqueue(), bad.enqueue(), good.enqueue()]
    with raising("tinyjobs", error) as handler:
        run(app)
    assert [job.refresh().status for job in jobs] == ["success", "failed", "success"]
    assert told == [True, False]
    assert handler.asked > 3
    assert f"a log handler raised {type(error).__name__}" in capsys.readouterr().err


def refuse(record):
    raise LookupError("there is no request here")


def mark(record):
    record.task = record.worker_id = "of the request"


@pytest.mark.parametrize(("change", "error"), [(refuse, "LookupError"), (mark, "KeyError")])
def test_a_record_factory_that_raises_or_takes_our_names_changes_nothing_for_jobs(app, caplog, capsys, change, error):
    make = logging.getLogRecordFactory()

    def factory(*given, **options):
        record = make(*given, **options)
        if record.name.startswith("tinyjobs"):
            change(record)
        return record

    @app.task(name="bad", max_attempts=2, retry_base=0.001)
    def bad():
        raise ValueError("boom")

    job = bad.enqueue()
    logging.setLogRecordFactory(factory)
    try:
        run(app)
    finally:
        logging.setLogRecordFactory(make)
    assert job.refresh().status == "failed"
    # It is told all the same, by a record as Python makes it, with our fields.
    retry, failure = [entry for entry in caplog.records if getattr(entry, "job_id", None) == job.id]
    assert (retry.task, failure.task, failure.levelname) == ("bad", "bad", "ERROR")
    assert failure.worker_id == job.worker_id and failure.lineno > 0
    assert f"a log record factory raised {error} on a record of tinyjobs" in capsys.readouterr().err


@pytest.mark.django_db
def test_a_handler_of_djangos_own_logger_that_raises_fails_no_job(raising):
    from tests.taskbackend.shop import tasks
    from tinyjobs.testing import drain

    with raising("django.tasks", ValueError("a bug")) as handler:
        result = tasks.add.enqueue(1, 2)
        drain()
    result.refresh()
    assert result.status == "SUCCESSFUL"
    assert handler.asked


# --- a stream nobody reads --------------------------------------------------------------------------------------------


@pytest.fixture
def pipe():
    """A pipe of a page, as a text stream to write to and a descriptor to read from."""
    ours, theirs = os.pipe()
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, 4096)
    stream = os.fdopen(theirs, "w", encoding="ascii")
    yield stream, ours
    for close in (stream.close, lambda: os.close(ours)):
        with contextlib.suppress(OSError):
            close()


def read_all(descriptor):
    data = b""
    while chunk := os.read(descriptor, 65_536):
        data += chunk
    return data.decode().splitlines()


def test_lines_arrive_in_their_order(pipe):
    stream, ours = pipe
    sink = LineSink(stream)
    lines = [f"{number} " + "x" * 200 for number in range(200)]
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.extend(read_all(ours)))
    reader.start()
    for line in lines:
        sink.write(line)
    sink.close(PATIENCE)
    stream.close()
    reader.join(PATIENCE)
    assert found == lines


def test_nobody_is_waited_for_and_what_was_dropped_is_counted(pipe):
    stream, ours = pipe
    sink = LineSink(stream)
    line = "x" * 999
    count = (4096 + BACKLOG) // 1_000 + 50
    for _ in range(count):
        sink.write(line)  # would wait for ever, if it waited
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.extend(read_all(ours)))
    thread = sink._thread  # there for as long as nobody reads
    assert thread is not None
    reader.start()
    thread.join(PATIENCE)
    sink.write("after")
    sink.close(PATIENCE)
    stream.close()
    reader.join(PATIENCE)
    dropped = re.fullmatch(r"\.\.\. (\d+) lines were dropped here, since nobody read them \.\.\.", found[-2])
    assert found[-1] == "after"
    assert dropped and int(dropped[1]) >= 40
    assert found[:-2] == [line] * (count - int(dropped[1]))


def test_the_end_waits_a_moment_and_no_longer(pipe):
    stream, _ = pipe
    sink = LineSink(stream)
    for _ in range(20):
        sink.write("x" * 999)
    sink.close(0.05)


def test_a_reader_that_has_gone_costs_nothing(pipe):
    stream, ours = pipe
    sink = LineSink(stream)
    os.close(ours)
    for _ in range(20):
        sink.write("x" * 999)
    sink.close(PATIENCE)
    assert sink._thread is None


def test_what_the_stream_cannot_show_is_spelled_out(pipe):
    stream, ours = pipe
    sink = LineSink(stream)
    sink.write("a – b \ud800")
    sink.close(PATIENCE)
    stream.close()
    assert read_all(ours) == [r"a \u2013 b \ud800"]


def test_the_pipe_of_others_goes_on_waiting(pipe):
    """The descriptor is shared with whoever started this process, and with whom it starts."""
    stream, _ = pipe
    sink = LineSink(stream)
    sink.write("told")
    assert os.get_blocking(stream.fileno())
    sink.close(PATIENCE)


def test_no_sink_where_there_is_no_descriptor(capsys):
    assert sink_on(None) is None
    assert sink_on(sys.stderr) is None


# --- the log of a command ---------------------------------------------------------------------------------------------


@pytest.fixture
def bare(monkeypatch):
    """The loggers as in a program that has set up no logging. pytest adds to the root what is taken away here."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(logging.getLogger("tinyjobs"), "handlers", [])


def test_the_format_of_a_command(bare, capsys):
    logging.getLogger().handlers.clear()
    logging.getLogger("tinyjobs").handlers.clear()
    warned = []
    with CommandLog(1, "json", takes_root=True, warn=warned.append) as log:
        log.settle()
        logging.getLogger("tinyjobs.worker").info("ours")
        logging.getLogger("somebody").warning("else's")
        assert log.tell(logging.INFO, "  a line of the banner")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["message"] for line in lines] == ["ours", "else's", "a line of the banner"]
    assert not logging.getLogger().handlers and not logging.getLogger("tinyjobs").handlers
    assert warned == []


def test_a_program_that_sets_up_logging_while_it_is_imported_keeps_it(bare, capsys):
    logging.getLogger().handlers.clear()
    logging.getLogger("tinyjobs").handlers.clear()
    own, warned = Raising(ValueError), []
    own.emit = lambda record: records.append(record.getMessage())
    records: list[str] = []
    with CommandLog(1, "json", takes_root=True, warn=warned.append) as log:
        logging.getLogger("tinyjobs.worker").info("early")
        logging.getLogger().addHandler(own)
        log.settle()
        logging.getLogger("tinyjobs.worker").warning("later")
        assert not log.tell(logging.INFO, "a line of the banner")
    assert "early" in capsys.readouterr().err
    assert records == ["early", "later"][-len(records) :] and records[-1] == "later"
    (warning,) = warned
    assert "--log-format json changes nothing here" in warning and "tinyjobs.JSONFormatter" in warning


PROGRAM = """
from tinyjobs import TinyJobs

app = TinyJobs("sqlite:///jobs.db")

@app.task(max_attempts=1)
def fail(number):
    raise ValueError(f"{number} – " + "x" * 1500)

@app.task
def good():
    pass
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "work.py").write_text(PROGRAM)
    with TinyJobs(f"sqlite:///{tmp_path}/jobs.db") as app:
        yield tmp_path, app


def command(*more):
    return [sys.executable, "-m", "tinyjobs", "worker", "--app", "work:app", *more]


def environment(**more):
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def send(app, failing=3):
    for number in range(failing):
        app.send("work.fail", (number,))
    app.send("work.good")


def ended(app):
    counts = app.stats().by_status
    return counts.get("failed", 0), counts.get("success", 0)


@pytest.mark.parametrize("kind", ["full", "closed", "gone"])
def test_streams_that_take_nothing(program, kind):
    folder, app = program
    send(app)
    given: dict = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    names = ["stdout", "stderr"]
    line = " ".join(f"'{word}'" for word in command("--until-empty", "-v", "2"))
    if kind == "full":
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                command("--until-empty", "-v", "2"),
                cwd=folder,
                env=environment(),
                timeout=PATIENCE,
                **{**given, **dict.fromkeys(names, full)},
            )
    elif kind == "closed":
        closing = " ".join(f"{1 if name == 'stdout' else 2}>&-" for name in names)
        done = subprocess.run(
            ["sh", "-c", f"exec {line} {closing}"], cwd=folder, env=environment(), timeout=PATIENCE, **given
        )
    else:
        ours, theirs = os.pipe()
        os.close(ours)
        done = subprocess.run(
            command("--until-empty", "-v", "2"),
            cwd=folder,
            env=environment(),
            timeout=PATIENCE,
            **{**given, **dict.fromkeys(names, theirs)},
        )
        os.close(theirs)
    assert done.returncode == 0
    assert ended(app) == (3, 1)


def test_streams_that_are_ascii(program):
    folder, app = program
    send(app)
    done = subprocess.run(
        command("--until-empty"),
        cwd=folder,
        env=environment(PYTHONIOENCODING="ascii:strict", PYTHONUTF8="0", LC_ALL="C"),
        timeout=PATIENCE,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert ended(app) == (3, 1)
    assert r"\u2013" in done.stderr and "Traceback" in done.stderr


@pytest.mark.parametrize("stream", ["stderr", "stdout"])
def test_a_pipe_that_nobody_reads_holds_up_nothing(program, stream):
    folder, app = program
    ours, theirs = os.pipe()
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, 4096)
    given = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: theirs}
    count = 150
    send(app, count)
    if stream == "stdout":
        os.write(theirs, b"x" * 4096)  # full before the worker begins
    worker = subprocess.Popen(command("-v", "2"), cwd=folder, env=environment(), **given)
    os.close(theirs)
    try:
        end = threading.Event()
        for _ in range(int(PATIENCE * 10)):
            if ended(app) == (count, 1) or worker.poll() is not None:
                break
            end.wait(0.1)
        assert ended(app) == (count, 1)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0
    finally:
        worker.kill()
        worker.wait()
        os.close(ours)


def test_a_worker_whose_log_is_json(program):
    folder, app = program
    send(app, 1)
    done = subprocess.run(
        command("--until-empty", "-v", "2", "--log-format", "json"),
        cwd=folder,
        env=environment(),
        timeout=PATIENCE,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    about = {line["task"]: line for line in lines if "job_id" in line}
    assert about["work.good"]["level"] == "DEBUG"
    assert about["work.fail"]["traceback"].count("\n") > 2
    assert about["work.fail"]["will_retry"] is False
    assert any(line["message"].startswith("Worker ") for line in lines)  # the banner as well
    assert "Worker" not in done.stdout
