"""Who a worker is, in the rows of the jobs it holds. Nothing is looked up by it: the claim counter is the fence."""

import os
import secrets
import socket


def make_worker_id() -> str:
    """A fresh identity: host and process for people, and a random part, since both come back after a restart."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
