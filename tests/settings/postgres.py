"""The suite on Postgres: two databases of the server that TINYJOBS_TEST_POSTGRES names, which `runtests.py` sets.

Without it, the first process that reads these settings starts a private cluster, and those that it starts inherit it.
A process that a test starts is pointed at the test's own database by TINYJOBS_TEST_DATABASE, a name.
"""

import os
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.servers.postgres import URL_VARIABLE, Cluster
from tests.settings.base import *  # noqa: F403
from tests.settings.base import run_directory

# Other runs may use the same server. The directory's name is this run's alone, and in all of its processes the same.
RUN = run_directory().name.lower().replace("-", "_")

if URL_VARIABLE not in os.environ:
    _cluster = Cluster()
    os.environ[URL_VARIABLE] = _cluster.url()

SERVER = urlsplit(os.environ[URL_VARIABLE])


def database(name: str) -> dict[str, object]:
    """One database of the run. The test runner makes and drops it; the name without `test_` is never connected to."""
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": f"{RUN}_{name}",
        "HOST": unquote(SERVER.hostname or ""),
        "PORT": str(SERVER.port or ""),
        "USER": unquote(SERVER.username or ""),
        "PASSWORD": unquote(SERVER.password or ""),
        "OPTIONS": dict(parse_qsl(SERVER.query)),
        "TEST": {"NAME": f"test_{RUN}_{name}"},
    }


DATABASES = {"default": database("default"), "other": database("other")}
if "TINYJOBS_TEST_DATABASE" in os.environ:
    DATABASES["default"]["NAME"] = os.environ["TINYJOBS_TEST_DATABASE"]
