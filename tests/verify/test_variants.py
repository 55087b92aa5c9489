"""Teeth: `verify` exits 1 against each broken store, and names the fault; against the same one without a fault, 0."""

import os

import pytest

from tests.verify.conftest import VARIANTS, document, ends

pytestmark = [pytest.mark.skipif(os.name != "posix", reason="signals"), pytest.mark.slow]
RUN = ("--duration", "2.5", "--rate", "60", "--workers", "2", "--kill-every", "1", "--lease", "1")


@pytest.mark.parametrize(
    ("store", "breaches"),
    [
        ("sound", set()),
        ("unfenced", {"usurped", "untraced"}),
        ("impatient --settle 3", {"too_early"}),
        # So long may it also take on a busy machine until a worker was there to be killed.
        ("negligent --settle 15", {"unfinished"}),
        ("twofold", {"twice"}),
        ("piecemeal", {"seen_by_halves", "untraced"}),
        ("forgetful", {"lost"}),
    ],
)
def test_each_fault_is_found(verify, tmp_path, store, breaches):
    scheme, *more = store.split()
    run = verify(f"{scheme}:///{tmp_path}/scratch.db", *RUN, *more, "--json", plugins=VARIANTS)
    status = ends(run)
    found = document(run)
    assert status == (1 if breaches else 0), found["reasons"]
    assert bool(breaches) == any(found["jobs"][name] for name in breaches), found["reasons"]
