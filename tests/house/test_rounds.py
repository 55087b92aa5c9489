"""Commands side by side: each one's output in one piece, and an end to all when we are to end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.rounds import Round, run_in_turn, run_side_by_side

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0

pytestmark = pytest.mark.skipif(os.name == "nt", reason="sends signals")


def say(text, *, then="", code=0):
    return [
        sys.executable,
        "-c",
        f"import os, sys, time; print({text!r}, flush=True); {then or 'pass'}; sys.exit({code})",
    ]


def test_what_two_write_at_the_same_time_is_shown_one_after_the_other(tmp_path, capfd):
    """Each waits for the other to be there, so they cannot but run at once."""
    meet = (
        "open({mine!r}, 'w').close()\nwhile not os.path.exists({other!r}): time.sleep(0.01)\nprint('met', flush=True)"
    )
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    codes = run_side_by_side(
        [
            Round("one", [sys.executable, "-c", "import os, time\n" + meet.format(mine=first, other=second)]),
            Round("two", [sys.executable, "-c", "import os, time\n" + meet.format(mine=second, other=first)]),
        ],
        2,
    )
    assert codes == {"one": 0, "two": 0}
    shown = [line.partition(":")[0] for line in capfd.readouterr().out.split("\n") if line]
    one, two = ["--- one", "met", "--- one"], ["--- two", "met", "--- two"]
    assert shown in (one + two, two + one)


def test_only_so_many_run_at_a_time_and_in_the_order_given(tmp_path, capfd):
    alone = "assert not os.path.exists('busy'); open('busy', 'w').close(); print(os.environ['NAME']); os.remove('busy')"
    rounds = [
        Round(name, [sys.executable, "-c", f"import os; os.chdir({str(tmp_path)!r}); {alone}"], {"NAME": name})
        for name in ("one", "two", "three")
    ]
    assert run_side_by_side(rounds, 1) == {"one": 0, "two": 0, "three": 0}
    shown = capfd.readouterr().out.split("\n")
    assert [line for line in shown if line and not line.startswith("---")] == ["one", "two", "three"]


@pytest.mark.parametrize("run", [run_in_turn, lambda rounds: run_side_by_side(rounds, 3)])
def test_each_one_keeps_its_exit_code_and_runs_in_the_repository(run, capfd):
    failing = Round("failing", say("no", code=3))
    killed = Round("killed", say("", then="os.kill(os.getpid(), 9)"))
    fine = Round("fine", say("", then="print(os.getcwd(), os.environ['COLOUR'])"), {"COLOUR": "blue"})
    assert run([failing, killed, fine]) == {"failing": 3, "killed": -9, "fine": 0}
    shown = capfd.readouterr().out
    assert f"{ROOT} blue" in shown
    assert all(f"--- {name}" in shown for name in ("failing", "killed", "fine"))


def test_what_an_exit_code_means_is_said(capfd):
    rounds = [Round("empty", say("", code=5), meanings={5: "had nothing to do"}), Round("failing", say("", code=3))]
    assert run_side_by_side(rounds, 1) == {"empty": 5, "failing": 3}
    shown = capfd.readouterr().out
    assert "--- empty: had nothing to do after" in shown and "--- failing: failed with exit code 3 after" in shown


PROGRAM = """
import sys
from tests.rounds import Round, run_side_by_side
commands = [[sys.executable, "-c", code] for code in sys.argv[1:]]
rounds = [Round(f"round {number}", command) for number, command in enumerate(commands)]
try:
    run_side_by_side(rounds, 2)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(130)
"""
# Heeds an interrupt as pytest does: it says what it has done so far. It has a child, which heeds it as well.
HEEDS = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stderr=subprocess.DEVNULL)
open({file!r}, "w").write(f"{{os.getpid()}} {{child.pid}}\\n")
try:
    time.sleep(600)
except KeyboardInterrupt:
    print("summary", flush=True)
    child.wait()
"""
IGNORES = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" + HEEDS


def pids(path: Path) -> list[int]:
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def is_there(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def eventually(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "not within patience"
        time.sleep(0.01)


@pytest.fixture
def program(tmp_path):
    """Two commands under way, and the pids of all that run."""
    files = [tmp_path / "0", tmp_path / "1"]

    def start(*codes):
        written = [code.format(file=str(file)) for code, file in zip(codes, files, strict=True)]
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *written],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        eventually(lambda: all(len(pids(file)) == 2 for file in files))
        return process, [pid for file in files for pid in pids(file)]

    started = []
    yield start
    for process in started:
        process.kill()
        process.communicate()


needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="looks into /proc")


@needs_proc
def test_an_interrupt_ends_all_and_shows_what_they_wrote(program):
    process, everybody = program(HEEDS, HEEDS)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    written, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert written.count("summary") == 2 and written.count("was interrupted") == 2
    assert written.endswith("interrupted\n")
    eventually(lambda: not any(map(is_there, everybody)))


@needs_proc
def test_who_does_not_heed_an_interrupt_is_killed_by_the_second(program):
    process, everybody = program(HEEDS, IGNORES)
    process.send_signal(signal.SIGINT)
    eventually(lambda: not is_there(everybody[0]))
    process.send_signal(signal.SIGINT)
    written, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and "summary" in written
    eventually(lambda: not any(map(is_there, everybody)))


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_termination_ends_all(program, number):
    process, everybody = program(HEEDS, IGNORES)
    process.send_signal(number)
    written, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number and written.count("was interrupted") == 2
    eventually(lambda: not any(map(is_there, everybody)))
