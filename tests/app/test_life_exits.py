"""However a program ends, the app leaves nothing open, says nothing, and does not hold up the end.

Each way runs once here; `python -m tests.app.exits --times 100` runs them as often as one likes.
"""

import pytest

from tests.app.exits.running import cases, fault

#: On a server a daemon thread that is still enqueuing may be told of the pool's end.
ON_POSTGRES = ["sync_only", "async_only", "both", "closed", "closed_twice", "dropped", "drained", "sys_exit"]


@pytest.mark.parametrize("case", cases())
def test_a_program_ends_in_silence(tmp_path, case):
    path = tmp_path / "jobs.db"
    assert fault(case, f"sqlite:///{path}", path) is None


@pytest.mark.parametrize("case", ["sync_only", "both", "dropped", "drained", "closed_twice", "at_exit_closes"])
def test_a_store_in_memory_too(case):
    assert fault(case, "memory://") is None


@pytest.mark.parametrize("case", ON_POSTGRES)
def test_on_postgres_too(postgres_url, case):
    assert fault(case, postgres_url) is None
