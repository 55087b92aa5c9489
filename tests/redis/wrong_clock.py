"""A Redis whose wall clock a test sets, by a small library put before the server's own. Needs a C compiler.

libfaketime does not go together with the allocator of most builds of Redis.
"""

import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers.processes import reachable
from tests.servers.programs import redis_program
from tests.servers.redis import RedisServer

SOURCE = """
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const double *shift;

__attribute__((constructor)) static void begin(void) {
    int file = open(getenv("SHIFT_FILE"), O_RDONLY);
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(double), PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) shift = mapped;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec real;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &real);
    double shifted = real.tv_sec + real.tv_nsec / 1e9 + (shift ? *shift : 0.0);
    now->tv_sec = (time_t)shifted;
    now->tv_usec = (suseconds_t)((shifted - (time_t)shifted) * 1e6);
    return 0;
}
"""


class WrongClock:
    """The clock of a server that runs by `program`: so many seconds off, from one moment to the next."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o755)
        found = redis_program()
        real = reachable(found.parent) / found.name
        self._file = folder / "shift"
        self.set(0.0)
        (folder / "clock.c").write_text(SOURCE)
        library = folder / "clock.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, folder / "clock.c"], check=True, timeout=60)
        self.program = folder / found.name
        self.program.write_text(f'#!/bin/sh\nSHIFT_FILE={self._file} LD_PRELOAD={library} exec {real} "$@"\n')
        self.program.chmod(0o755)

    def set(self, seconds: float) -> None:
        """Step it. In place, so that the server sees it at once."""
        with open(self._file, "r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("d", seconds))


@contextmanager
def wrong_clock() -> Iterator[WrongClock]:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    with tempfile.TemporaryDirectory(prefix="tinyjobs-clock-") as folder:
        yield WrongClock(Path(folder))


def off_by(server: RedisServer, now: Callable[[], float]) -> float:
    """By how much a server's clock is ahead of the one given: by the quickest of several answers, to its half."""
    readings = []
    for _ in range(20):
        asked = now()
        seconds, micros = server.execute("TIME")
        answered = now()
        readings.append((answered - asked, float(seconds) + float(micros) / 1e6 - (asked + answered) / 2))
    return min(readings)[1]
