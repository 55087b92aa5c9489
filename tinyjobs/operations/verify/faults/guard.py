"""Run as a program: starts a server as its child, and ends it when its own standard input ends.

    python -I -S guard.py FOLDER UID GID PROGRAM ARGUMENT…

Whoever holds the other end of that pipe need not live to end the server. The folder goes with it. UID 0 leaves the user
as it is. The server's pid is written to the standard output. Imports nothing of the package, so it starts at once.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
from typing import Any

GRACE = 20.0


def main() -> None:
    """See above."""
    folder, uid, gid, *command = sys.argv[1:]
    owner: dict[str, Any] = {"user": int(uid), "group": int(gid), "extra_groups": []} if int(uid) > 0 else {}
    with open(os.path.join(folder, "log"), "ab") as log:
        server = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **owner,
        )
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdout.write(f"{server.pid}\n")
    sys.stdout.flush()
    is_left_alone = threading.Event()
    end = threading.Thread(target=_end_with_our_input, args=(server, folder, is_left_alone), daemon=True)
    end.start()
    server.wait()
    if is_left_alone.is_set():
        end.join()
    # At once, since the thread may be in the middle of a read.
    os._exit(0)


def _end_with_our_input(server: "subprocess.Popen[bytes]", folder: str, is_left_alone: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    # Before the server ends of it: the folder is still to go then.
    is_left_alone.set()
    # SIGQUIT is Postgres' immediate shutdown, which ends its children too.
    server.send_signal(signal.SIGQUIT)
    server.send_signal(signal.SIGCONT)
    try:
        server.wait(GRACE)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
