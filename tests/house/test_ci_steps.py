"""The steps of `.ci/run`: at the same time, shown in one piece, each failure named, and none left behind."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.house.source import ROOT

PATIENCE = 30.0
BEFORE = """
set -euo pipefail
scratch=$1
trap 'end_lanes; exit 130' INT
trap 'end_lanes; exit 143' TERM HUP
source .ci/steps.bash
"""

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


def start(folder, script):
    return subprocess.Popen(
        ["bash", "-c", BEFORE + script, "run", folder],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run(folder, script):
    process = start(folder, script)
    written, _ = process.communicate(timeout=PATIENCE)
    return process.returncode, re.sub(r"\d+ s\b", "N s", written)


def test_lanes_run_at_once_and_their_steps_in_turn(tmp_path):
    code, written = run(
        tmp_path,
        """
        await() { until [[ -e $scratch/$1 ]]; do sleep 0.01; done; }
        a1() { touch "$scratch/a1"; await b1; echo from a1; }
        b1() { await a1; touch "$scratch/b1"; echo from b1; echo again >&2; await shown; }
        a2() { echo from a2; touch "$scratch/shown"; }
        a() { step 'first of a' a1; step 'second of a' a2; }
        b() { step 'the one of b' b1; }
        side_by_side a b
        echo "failed: ${#failed[@]}"
        ls "$scratch"
        """,
    )
    assert code == 0
    assert "=== first of a\nfrom a1\n=== first of a: ok, N s" in written
    assert "=== the one of b\nfrom b1\nagain\n=== the one of b: ok, N s" in written
    assert written.index("first of a: ok") < written.index("second of a: ok")
    assert written.endswith("failed: 0\na1\nb1\nshown\n")


def test_every_failure_is_named_and_stops_no_other_step(tmp_path):
    code, written = run(
        tmp_path,
        """
        in_the_middle() { false; echo 'not reached'; }
        a() { step 'the middle' in_the_middle; step 'the rest' echo 'goes on'; }
        b() { step "it's 100 % wrong" bash -c 'exit 7'; }
        c() { exit 3; }
        side_by_side a b c
        printf 'FAILED: %s\\n' "${failed[@]}" | sort
        side_by_side b
        echo "${#failed[@]}"
        """,
    )
    assert code == 0
    assert "not reached" not in written and "\ngoes on\n" in written
    assert "=== it's 100 % wrong: FAILED (exit 7), N s" in written
    named = [line for line in written.splitlines() if line.startswith("FAILED: ")]
    assert named == ["FAILED: a lane of steps, which broke off", "FAILED: it's 100 % wrong", "FAILED: the middle"]
    assert written.endswith("\n4\n")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
def test_who_ends_it_ends_all_of_it_and_sees_what_was_written(tmp_path, number, status):
    """A program that ends as it likes is waited for. The signal goes to the process group, as from a terminal."""
    ends = tmp_path / "ends.py"
    ends.write_text(
        "import os, signal, sys, time\n"
        "def end(number, frame):\n"
        "    print('ended in order', flush=True)\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('so far', flush=True)\n"
        f"open({str(tmp_path / 'up')!r}, 'w').write(str(os.getpid()))\n"
        "time.sleep(600)\n"
    )
    process = start(tmp_path, f"a() {{ step 'one' {sys.executable} {ends}; }}; side_by_side a; echo 'went on'")
    deadline = time.monotonic() + PATIENCE
    while not (tmp_path / "up").exists() or not (tmp_path / "up").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, number)
    written, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == status
    assert "so far\nended in order\n" in written and "went on" not in written
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "up").read_text()), 0)
