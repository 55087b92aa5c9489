"""A password stays out of what a program shows of itself: the texts of objects, also those an error's frames hold.

Reports of errors write those out, as Django's own page does. What a URL or an option may look like is in `test_urls`.
"""

from types import TracebackType

import pytest

from tinyjobs.core.clock import SystemClock
from tinyjobs.core.errors import StoreError
from tinyjobs.operations.verify.surroundings import Surroundings
from tinyjobs.taskbackend.settings import parse
from tinyjobs.taskbackend.shared import Shared

SECRET = "s3cr3t"


def frames_of(traceback: TracebackType | None) -> dict[str, object]:
    """What is held by the variables of our functions that an error came through."""
    held: dict[str, object] = {}
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if "/tinyjobs/" in code.co_filename:
            held |= {f"{code.co_qualname} {name}": value for name, value in traceback.tb_frame.f_locals.items()}
        traceback = traceback.tb_next
    return held


@pytest.mark.parametrize(
    "options",
    [{"url": f"redis://me:{SECRET}@host/0"}, {"url": "redis://host", "password": SECRET}],
    ids=["in the URL", "beside the URL"],
)
def test_what_django_keeps_of_an_alias_shows_none(options):
    settings = parse("default", options)
    shared = Shared(settings, SystemClock())
    assert settings.where.startswith("redis://") and shared.home
    assert SECRET not in repr(settings) + repr(shared) + repr(shared.home)


def test_what_a_verification_passes_on_shows_none(tmp_path):
    around = Surroundings(url=f"redis://:{SECRET}@host", options={"password": SECRET}, ledger=tmp_path, token="t")
    assert SECRET not in repr(around)


def test_the_frames_of_an_error_show_none(make_redis, make_app):
    server = make_redis(requirepass=SECRET)
    app = make_app(server.url())
    app.task(name="t")(lambda: None)
    app.send("t")
    server.stop()
    with pytest.raises(StoreError) as told:
        app.send("t")
    error: BaseException | None = told.value
    held: dict[str, object] = {}
    while error is not None:
        assert SECRET not in f"{error} {error!r}"
        held |= frames_of(error.__traceback__)
        error = error.__cause__
    assert "ThreadLink._call source" in held, "frames of the store are among them"
    assert [name for name, value in held.items() if SECRET in repr(value)] == []
