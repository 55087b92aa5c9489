"""What the harness's workers serve: `tinyjobs worker --app tinyjobs.operations.verify.app:app`. Imported by them alone.

A worker's standard input is a pipe that the verifier holds open. When it closes, the verifier is gone, and the worker
stops, so that no run leaves workers behind.
"""

import os
import signal
import threading

from tinyjobs.operations.verify.ledger import Ledger
from tinyjobs.operations.verify.surroundings import Surroundings
from tinyjobs.operations.verify.tasks import make_app


def _watch(is_orphaned: threading.Event) -> None:
    try:
        while os.read(0, 4096):
            pass
    except OSError:
        pass
    is_orphaned.set()
    os.kill(os.getpid(), signal.SIGTERM)


_told = Surroundings.read(os.environ)
_is_orphaned = threading.Event()
app, _ = make_app(_told.url, _told.options, Ledger(_told.ledger), _told.token, _is_orphaned)
threading.Thread(target=_watch, args=(_is_orphaned,), name="verifier-watch", daemon=True).start()
