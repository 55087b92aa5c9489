"""The benchmark of the pages runs, small, and has a line for each of them."""

import os
import subprocess
import sys

import pytest

from tests.benchmarks.dashboard import pages
from tests.house.source import ROOT

pytestmark = pytest.mark.slow


def test_it_measures_every_page():
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.dashboard", "--jobs", "4000", "--rounds", "1"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "TINYJOBS_TEST_DIRECTORY"},  # has its own
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    title, *lines = done.stdout.splitlines()
    assert done.returncode in (0, 1) and title.startswith("sqlite, 4,000 jobs"), done.stderr
    assert [line.split()[0] for line in lines] == [page or "overview" for page in pages("ID")]
    assert all(int(line.split()[3]) > 0 for line in lines)
