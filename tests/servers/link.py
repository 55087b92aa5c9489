"""A slow link before a server, in a process of its own: what it costs is not taken from those who use it.

`python -m tests.servers.link URL SECONDS` prints its port, delays what passes by that much in each direction, and ends
with its standard input. Beside a `Proxy`, which shares its process with the test that steers it, this one can be told
nothing; it is for measuring.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.servers.processes import PATIENCE
from tests.servers.proxy import Proxy


@contextmanager
def slow_link(url: str, delay: float) -> Iterator[str]:
    """The server's URL by way of a link that delays by so many seconds in each direction."""
    command = [sys.executable, "-m", "tests.servers.link", url, str(delay)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.wait(PATIENCE)


def main(url: str, delay: str) -> None:
    """Stand before the server until standard input ends."""
    with Proxy.before(url) as proxy:
        proxy.delay(float(delay))
        print(proxy.url(url), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
