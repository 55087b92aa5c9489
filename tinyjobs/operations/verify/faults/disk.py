"""A small disk of its own that can be filled to the last byte: a tmpfs, which only root may mount."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tinyjobs.core.errors import ConfigurationError

_SIZE = "16m"
_FILLER = "filler"
NEEDS_ROOT = "fills a disk of its own, a tmpfs that only root can mount here, and this process cannot"


#: Takes a mounted folder away when its standard input ends, be it because whoever made it was killed.
_KEEPER = """
import os, shutil, signal, subprocess, sys
umount, folder = sys.argv[1:]
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
while os.read(0, 4096):
    pass
subprocess.run([umount, "-l", folder], stderr=subprocess.DEVNULL)
shutil.rmtree(folder, ignore_errors=True)
"""


class SmallDisk:
    """Mounted when it is made, and gone with this process. Raises `ConfigurationError` where that cannot be."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tinyjobs-disk-"))
        mount, umount = (shutil.which(name) or f"/bin/{name}" for name in ("mount", "umount"))
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _KEEPER, umount, str(self.folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            done = subprocess.run(
                [mount, "-t", "tmpfs", "-o", f"size={_SIZE},mode=700", "tmpfs", str(self.folder)],
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError as error:
            self.close()
            raise ConfigurationError(f"{NEEDS_ROOT}: {error}") from error
        if done.returncode:
            self.close()
            raise ConfigurationError(f"{NEEDS_ROOT}: {done.stderr.strip()}")

    def fill(self) -> None:
        """Leave no room."""
        with (self.folder / _FILLER).open("ab", buffering=0) as filler:
            for size in (65_536, 4_096, 512, 1):
                try:
                    while filler.write(b"\0" * size):
                        pass
                except OSError:
                    continue

    def clear(self) -> None:
        """Give the room back."""
        (self.folder / _FILLER).unlink(missing_ok=True)

    def close(self) -> None:
        """Take the disk away with all that is on it."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        self._keeper.wait()
