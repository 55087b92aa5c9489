"""What a module may import, where import-linter cannot say it; the floors are its contracts, in pyproject.toml."""

import re
import sys
import tomllib

from tests.house.source import PACKAGE, ROOT, modules

DRIVERS = {"sqlite3": "sqlite", "psycopg": "postgres", "psycopg_pool": "postgres", "redis": "redis"}
DRIVERS["hiredis"] = "redis"  # makes the driver of Redis faster where it is installed
# Where a store makes, uses and understands connections; its options are those the driver knows.
DRIVER_MODULES = {
    "sqlite": {"callers.py", "connection.py", "errors.py"},
    "postgres": {
        "connection.py",
        "errors.py",
        "liveness.py",
        "listener.py",
        "looppool.py",
        "options.py",
        "source.py",
        "threadpool.py",
    },
    "redis": {"clients.py", "driver.py", "errors.py", "options.py", "replies.py"},
}
# Files of their own that are no store of jobs.
NO_STORE = {"tinyjobs/operations/verify/ledger.py", "tinyjobs/operations/verify/faults/locking.py"}
ALLOWED_AT_RUN_TIME = {"tinyjobs", "django", "asgiref", *DRIVERS, *sys.stdlib_module_names}
# Imported in one place, and only once the program has imported it itself.
BROUGHT_ALONG = {("tinyjobs/operations/telemetry.py", "opentelemetry")}


def test_no_module_imports_the_root():
    offences = [
        f"{module.place}:{line}" for module in modules() for line, name in module.imports() if name == "tinyjobs"
    ]
    assert not offences, "import from the module that owns the name, not from the root:\n" + "\n".join(offences)


def test_drivers_stay_in_their_stores_connection_and_errors():
    offences = []
    for module in modules():
        for line, name in module.imports():
            store = DRIVERS.get(name.split(".")[0])
            if store is None or module.place in NO_STORE:
                continue
            home = PACKAGE / "backends" / store
            if module.path.parent != home or module.path.name not in DRIVER_MODULES[store]:
                offences.append(f"{module.place}:{line} imports {name}")
    assert not offences, "a driver is known to these modules of its store alone:\n" + "\n".join(offences)


def test_only_the_top_floor_imports_django():
    # import-linter looks for ways around; this finds direct imports in modules that its contract does not list.
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (floors,) = (contract["layers"] for contract in contracts if contract.get("containers") == ["tinyjobs"])
    django_rooms = set(re.findall(r"\w+", floors[0]))
    assert {"taskbackend", "models", "management"} <= django_rooms
    offences = [
        f"{module.place}:{line} imports {name}"
        for module in modules()
        if module.path.relative_to(PACKAGE).with_suffix("").parts[0] not in django_rooms
        for line, name in module.imports()
        if name.split(".")[0] == "django"
    ]
    assert not offences, "Django is known to the top floor alone:\n" + "\n".join(offences)


def test_nothing_else_is_needed_at_run_time():
    foreign = [
        f"{module.place}:{line} imports {name}"
        for module in modules()
        for line, name in module.imports()
        if name.split(".")[0] not in ALLOWED_AT_RUN_TIME and (module.place, name.split(".")[0]) not in BROUGHT_ALONG
    ]
    assert not foreign, "the package runs on Django, asgiref and tzdata:\n" + "\n".join(foreign)
