"""Run as a program: ends a server and removes its folder as soon as whoever started it is gone, even by SIGKILL.

    python -I -S guard.py FOLDER

Its standard input is a pipe that only the owner holds open. A line says which process to end (0: none). It imports
nothing of the project, so it starts at once and no measuring of coverage looks into it.
"""

import os
import shutil
import signal
import sys
import time

GRACE = 10.0


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    watched = 0
    for line in sys.stdin:
        watched = int(line)
    if watched:
        end(watched)
    shutil.rmtree(sys.argv[1], ignore_errors=True)


def end(pid: int) -> None:
    # SIGQUIT is Postgres' immediate shutdown, which ends its children too; PgBouncer takes it as one as well.
    for number in (signal.SIGQUIT, signal.SIGKILL):
        deadline = time.monotonic() + GRACE
        try:
            os.kill(pid, number)
            os.kill(pid, signal.SIGCONT)  # it may have been paused
            while time.monotonic() < deadline:
                time.sleep(0.02)
                os.kill(pid, 0)
        except ProcessLookupError:
            return


if __name__ == "__main__":
    main()
