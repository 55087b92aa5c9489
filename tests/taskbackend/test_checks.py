"""System checks: every wrong setting is named with its path before anything runs."""

import sys

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.tasks import default_task_backend
from django.tasks.exceptions import InvalidTaskBackend

from tests.taskbackend.shop import tasks

OURS = "tinyjobs.TinyJobsBackend"
TASK = "tests.taskbackend.shop.tasks.add"
STORE_OPTIONS = {
    "sqlite": {"busy_timeout": 3},
    "postgresql": {"min_connections": 20, "max_connections": 30, "statement_timeout": None, "notify": False},
}

pytestmark = pytest.mark.database


@pytest.fixture
def found(settings):
    """Run the checks under these OPTIONS, or this whole TASKS, and give the messages of ours."""

    def run(options=None, *, tasks=None, queues=None, deploy=False):
        entry = {"BACKEND": OURS, "OPTIONS": options or {}}
        if queues is not None:
            entry["QUEUES"] = queues
        settings.TASKS = tasks or {"default": entry}
        return [
            entry for entry in run_checks(include_deployment_checks=deploy) if (entry.id or "").startswith("tinyjobs.")
        ]

    return run


def test_right_settings_say_nothing(found):
    assert found() == []
    assert found({"url": "memory://", "enqueue_on_commit": False, "allow_pickle": False}) == []
    assert found({"lease": 30, "concurrency": 2, "queues": ["a"], **STORE_OPTIONS[connections["default"].vendor]}) == []
    assert found({"tasks": {TASK: {"timeout": 3, "retry_on": ("shop.errors.Gone",)}}}) == []


def test_a_wrong_option_is_told_once_however_many_schedules_there_are(found):
    schedule = {"task": TASK, "cron": "@daily", "args": [1, 2]}
    (told,) = found({"leese": 3, "schedules": {"a": schedule, "b": schedule}})
    assert told.id == "tinyjobs.E003"


@pytest.mark.parametrize(
    ("options", "path", "says"),
    [
        ({"leese": 3}, "TASKS['default']['OPTIONS']['leese']", "is no option"),
        ({"url": "memory://", "leese": 3}, "TASKS['default']['OPTIONS']['leese']", "does not take 'leese'"),
        ({"url": "sqlite:///x?busy_timeout=x"}, "TASKS['default']['OPTIONS']['url']: busy_timeout", "'x'"),
        ({"url": "sqlite:///x", "busy_timeout": "x"}, "TASKS['default']['OPTIONS']['busy_timeout']: 'x'", "seconds"),
        ({"url": "me:secret@host"}, "TASKS['default']['OPTIONS']['url']: 'me:***@host'", "no store URL"),
        ({"prefix": "mine"}, "TASKS['default']['OPTIONS']['prefix']", "is no option"),
        ({"lease": -1}, "TASKS['default']['OPTIONS']['lease']", "-1"),
        ({"lease": "long"}, "TASKS['default']['OPTIONS']['lease']", "'long'"),
        ({"concurrency": 0}, "TASKS['default']['OPTIONS']['concurrency']", "0"),
        ({"queues": "default"}, "TASKS['default']['OPTIONS']['queues']", "list"),
        ({"eager": 1}, "TASKS['default']['OPTIONS']['eager']", "True or False"),
        ({"max_result_bytes": 0}, "TASKS['default']['OPTIONS']['max_result_bytes']", "bytes"),
        ({"database": "nowhere"}, "TASKS['default']['OPTIONS']['database']", "nowhere"),
        ({"database": ""}, "TASKS['default']['OPTIONS']['database']", "not a text"),
        ({"url": "jobs.db"}, "TASKS['default']['OPTIONS']['url']", "no store URL"),
        ({"url": "carrier-pigeon://x"}, "TASKS['default']['OPTIONS']['url']", "carrier-pigeon"),
        ({"url": "memory://", "database": "default"}, "TASKS['default']['OPTIONS']['database']", "exclude"),
        ({"mask": True}, "TASKS['default']['OPTIONS']['mask']", "not a list of patterns"),
        ({"mask": ["*key*", 5]}, "TASKS['default']['OPTIONS']['mask']", "5 is no pattern"),
        ({"retention": {"sucess": 5}}, "TASKS['default']['OPTIONS']['retention'] does not take 'sucess'", "success"),
        ({"retention": {"failed": -5}}, "TASKS['default']['OPTIONS']['retention']: failed", "from 0 up"),
        ({"retention": 5}, "TASKS['default']['OPTIONS']['retention']", "is not a mapping"),
        ({"tasks": []}, "TASKS['default']['OPTIONS']['tasks']", "dictionary"),
        ({"tasks": {"add": {}}}, "TASKS['default']['OPTIONS']['tasks']['add']", "import path"),
        ({"tasks": {TASK: 3}}, f"['tasks']['{TASK}']", "dictionary"),
        ({"tasks": {TASK: {"timeout": -3}}}, f"['tasks']['{TASK}']: timeout", "-3"),
        ({"tasks": {TASK: {"cron": "* * * * *"}}}, f"['tasks']['{TASK}']", "cron"),
        ({"tasks": {TASK: {"key": "x"}}}, f"['tasks']['{TASK}']['key']", "cannot be set here"),
    ],
)
def test_a_wrong_option_is_an_error_with_its_path(found, options, path, says):
    (message,) = found(options)
    assert message.level >= 40
    assert path in message.msg
    assert says in message.msg


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"busy_timeout": -1}, "['busy_timeout']: -1 is not a number of seconds"),
        ({"synchronous": "OFF"}, "['synchronous']: 'OFF' is not one of NORMAL, FULL, EXTRA"),
        ({"returning": "maybe"}, "['returning']: 'maybe' is neither True nor False"),
        ({"max_connections": 3}, "['max_connections'] is no option"),
    ],
)
def test_a_wrong_option_of_sqlite(found, options, says):
    (message,) = found(options)
    assert f"TASKS['default']['OPTIONS']{says}" in message.msg


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_connections": 0}, "['max_connections']: 0 is not a number of connections"),
        ({"min_connections": "many"}, "['min_connections']: 'many' is not a number of connections"),
        ({"min_connections": 3, "max_connections": 2}, "['min_connections']: 3 is more than max_connections, 2"),
        ({"min_connections": 11}, "['min_connections']: 11 is more than max_connections, 10"),
        ({"pool_timeout": 0}, "['pool_timeout']: 0 is not a number of seconds"),
        ({"statement_timeout": -1}, "['statement_timeout']: -1 is not a number of seconds"),
        ({"notify": "perhaps"}, "['notify']: 'perhaps' is neither True nor False"),
        ({"schema": "jobs"}, "['schema'] is no option"),
        ({"prefix": "jobs"}, "['prefix'] is no option"),
        ({"busy_timeout": 3}, "['busy_timeout'] is no option"),
    ],
)
def test_a_wrong_option_of_postgres(found, options, says):
    (message,) = found(options)
    assert f"TASKS['default']['OPTIONS']{says}" in message.msg


@pytest.mark.postgres
def test_one_database_is_one_store_however_it_is_spelled(found):
    place = connections["default"].settings_dict
    url = f"postgresql://somebody@{place['HOST']}:{place['PORT']}/{place['NAME']}"

    def told(first, second):
        entries = [{"BACKEND": OURS, "OPTIONS": {"url": url} if url else {}} for url in (first, second)]
        return [entry.id for entry in found(tasks=dict(zip(("default", "second"), entries, strict=True)))]

    assert told(None, url) == ["tinyjobs.E006"]
    assert told(url.replace("postgresql:", "postgres:"), f"{url}?max_connections=3") == ["tinyjobs.E006"]
    assert told(None, f"{url}?prefix=apart") == []
    assert told(url, f"{url}_other") == []


@pytest.mark.postgres
def test_a_driver_that_runs_no_worker(found, monkeypatch):
    class psycopg2:
        pass

    monkeypatch.setattr(type(connections["default"]), "Database", psycopg2)
    (message,) = found()
    assert message.id == "tinyjobs.W003"
    assert "psycopg2" in message.msg
    assert "psycopg[binary,pool]" in message.hint


def test_everything_that_is_wrong_is_told_at_once(found):
    assert len(found({"lease": -1, "eager": 2, "retention": 5})) == 3
    assert len(found({"url": "sqlite:///x", "busy_timeout": -1, "leese": 3})) == 2


@pytest.mark.parametrize(("queues", "says"), [("default", "list"), (["a,b"], "comma"), ([""], "name"), (None, None)])
def test_queues(found, queues, says):
    messages = found(queues=queues)
    assert [says in message.msg for message in messages] == ([True] if says else [])


def test_wrong_settings_do_not_break_the_import_of_tasks_but_their_use(found):
    found({"lease": -1})
    assert tasks.add.using(priority=3).priority == 3
    with pytest.raises(InvalidTaskBackend, match="'lease'") as raised:
        default_task_backend.enqueue(tasks.add, [1], {})
    assert isinstance(raised.value, ImproperlyConfigured)


def test_the_app_is_missing(found, settings):
    settings.INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if name != "tinyjobs"]
    assert [message.id for message in found()] == ["tinyjobs.E002"]


def test_two_aliases_may_not_share_a_store(found):
    ours = {"BACKEND": OURS}
    (message,) = found(tasks={"default": ours, "second": ours})
    assert message.id == "tinyjobs.E006"
    assert "'second'" in message.msg

    other = {"BACKEND": OURS, "OPTIONS": {"database": "other"}}
    assert found(tasks={"default": ours, "second": other}) == []
    shared = {"BACKEND": OURS, "OPTIONS": {"url": "sqlite:///jobs.db"}}
    assert [entry.id for entry in found(tasks={"default": shared, "second": shared})] == ["tinyjobs.E006"]
    apart = {"BACKEND": OURS, "OPTIONS": {"url": "sqlite:///jobs.db", "prefix": "second"}}
    assert found(tasks={"default": shared, "second": apart}) == []


@pytest.mark.sqlite
def test_one_file_is_one_store_however_it_is_spelled(found, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.db").symlink_to(tmp_path / "jobs.db")

    def told(*urls):
        entries = [{"BACKEND": OURS, "OPTIONS": {"url": url} if url else {}} for url in urls]
        return [entry.id for entry in found(tasks=dict(zip(("default", "second"), entries, strict=True)))]

    spelled = ["sqlite:///jobs.db", f"sqlite:///{tmp_path}/jobs.db?busy_timeout=1", "sqlite:///file:jobs.db?mode=rwc"]
    for other in [*spelled[1:], "sqlite:///link.db", "sqlite:///./jobs.db"]:
        assert told(spelled[0], other) == ["tinyjobs.E006"], other
    project = f"sqlite:///{connections['default'].settings_dict['NAME']}"
    assert told(None, project) == ["tinyjobs.E006"]
    assert told(None, f"{project}?prefix=apart") == []
    assert told("memory://", "memory://") == []


@pytest.mark.parametrize(
    ("options", "path", "says"),
    [
        ({"url": "redis://:secret@h/0", "leese": 3}, "['leese']", "does not take 'leese'"),
        ({"url": "redis://:secret@h/0?leese=3"}, "['url']", "one of the options in its query"),
        ({"url": "redis://:secret@h/zero"}, "['url']", "is a number"),
        ({"url": "redis://:sec#ret@h/0"}, "['url']", "cannot be read"),
        ({"url": "redis://a,b/0"}, "['url']", "several hosts"),
        ({"url": "redis://h/0", "password": "secret", "retry_on_timeout": True}, "['retry_on_timeout']", "runs twice"),
        ({"url": "redis://h/0", "socket_timeout": "long"}, "['socket_timeout']", "'long' is not a number of seconds"),
        ({"url": "redis://h/0", "max_connections": 0}, "['max_connections']", "0 is not a number of connections"),
        ({"url": "redis://h/0", "prefix": "{mine}}"}, "['prefix']", "cannot stand before keys"),
        ({"url": "redis://h/0", "database": "default"}, "['url'] and TASKS", "exclude"),
    ],
)
def test_a_wrong_option_of_redis(found, options, path, says):
    (message,) = found(options)
    assert message.id == "tinyjobs.E003"
    assert message.msg.startswith(f"TASKS['default']['OPTIONS']{path}")
    assert says in message.msg
    assert "secret" not in message.msg.replace("***", "") and "ret@" not in message.msg


def test_one_redis_is_one_store_however_it_is_spelled(found, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "redis.sock")

    def told(first, second, **options):
        entries = [{"url": first}, {"url": second, **options}]
        made = [{"BACKEND": OURS, "OPTIONS": entry} for entry in entries]
        return [entry.id for entry in found(tasks=dict(zip(("default", "second"), made, strict=True)))]

    spelled = ["redis://localhost", "redis://127.0.0.1:6379/0", "redis://:secret@LOCALHOST/?db=0", "valkey://[::1]"]
    spelled += ["redis://localhost/?prefix=tinyjobs&socket_timeout=3", "redis://"]
    for other in spelled:
        assert told(spelled[0], other) == ["tinyjobs.E006"], other
        assert told(other, f"unix://{tmp_path}/link") == []
    assert told("redis://localhost/1", "redis://localhost/0", db=1) == ["tinyjobs.E006"]
    assert told(f"unix://{tmp_path}/link?db=2", f"unix://:secret@{tmp_path}/redis.sock", db=2) == ["tinyjobs.E006"]
    for other in ("redis://localhost/1", "redis://localhost:6380", "redis://elsewhere", "redis://localhost?prefix=b"):
        assert told("redis://localhost", other) == []
    assert told("redis://localhost", "redis://localhost", prefix="apart") == []


@pytest.mark.parametrize(
    ("url", "module", "extra"), [("redis://h/0", "redis", "redis"), ("postgresql://h/x", "psycopg", "postgres")]
)
def test_a_driver_that_is_missing(found, monkeypatch, url, module, extra):
    for name in list(sys.modules):
        if name.partition(".")[0] == module or name.startswith(f"tinyjobs.backends.{extra}"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    ours = [{"BACKEND": OURS, "OPTIONS": {"url": url, "prefix": prefix}} for prefix in ("a", "b")]
    for message in found(tasks=dict(zip(("default", "second"), ours, strict=True))):
        assert (message.id, message.level) == ("tinyjobs.E003", 40)
        assert f"pip install 'tinyjobs[{extra}]'" in message.msg
        assert "['url']" in message.msg


def test_a_router_that_forbids_our_tables(found, settings):
    class NotThere:
        def allow_migrate(self, db, app_label, **hints):
            return False if app_label == "tinyjobs" else None

    settings.DATABASE_ROUTERS = [NotThere()]
    assert [message.id for message in found()] == ["tinyjobs.E005"]


@pytest.mark.sqlite
def test_sqlite_that_begins_transactions_by_reading(found, monkeypatch):
    options = connections["default"].settings_dict["OPTIONS"]
    monkeypatch.setitem(options, "transaction_mode", None)
    (message,) = found()
    assert message.id == "tinyjobs.W001"
    assert "IMMEDIATE" in message.msg
    monkeypatch.setitem(options, "transaction_mode", "exclusive")
    assert found() == []


def test_a_database_that_no_store_supports(found, monkeypatch):
    monkeypatch.setattr(type(connections["default"]), "vendor", "mysql")
    (message,) = found()
    assert message.id == "tinyjobs.E004"
    assert "mysql" in message.msg


def test_requests_that_are_transactions_elsewhere(found, monkeypatch):
    monkeypatch.setitem(connections["other"].settings_dict, "ATOMIC_REQUESTS", True)
    (message,) = found()
    assert message.id == "tinyjobs.W002"
    assert "'other'" in message.msg


def test_what_is_wrong_in_production(found, settings):
    assert found(deploy=True) == []
    settings.DEBUG = True
    options = {"eager": True, "url": "memory://", "allow_pickle": True}
    ids = {message.id for message in found(options, deploy=True)}
    assert ids == {"tinyjobs.W101", "tinyjobs.W102", "tinyjobs.W103", "tinyjobs.W104"}
    assert found(options) == []


def test_checks_can_be_silenced_like_any(found, settings, monkeypatch):
    monkeypatch.setitem(connections["other"].settings_dict, "ATOMIC_REQUESTS", True)
    settings.SILENCED_SYSTEM_CHECKS = ["tinyjobs.W002"]
    (message,) = found()
    assert message.is_silenced()
