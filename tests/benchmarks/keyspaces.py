"""Private Redis servers as the store that a run is measured on. Must know no program and no table."""

import shutil
import time
from pathlib import Path

from tests.servers.processes import ServerProcess
from tests.servers.redis import RedisServer, Setting

# An append-only file that is synced every second: what a queue that must not lose its jobs is run on. It is not
# rewritten in the middle of a run, which would fall on whoever is measured just then.
SETTINGS: dict[str, Setting] = {
    "appendonly": True,
    "appendfsync": "everysec",
    "auto_aof_rewrite_percentage": 0,
    "save": "",
}
FILES = "appendonlydir"


class RedisServers:
    """One server, started anew for each run on an empty folder of the disk, or on the files of a filled one."""

    def __init__(self) -> None:
        # For its folder alone, which is the server's user's and on a disk: a file in memory is synced for nothing.
        self._disk = ServerProcess("tinyjobs-benchmark-redis-")
        self._server = RedisServer(program=None, replicaof=None, dir=str(self._disk.folder), **SETTINGS)

    def fresh(self, template: str | None = None) -> str:
        if self._server.is_running():
            self._server.kill()
        shutil.rmtree(self._files, ignore_errors=True)
        if template is not None:
            _copy(self._disk.folder / template, self._files)
        self._server.start()
        return self._server.url()

    def keep(self, template: str) -> None:
        # As a file that grew over weeks would be: one that is read in seconds, not with every command of the filling.
        self._server.execute("BGREWRITEAOF")
        while self._is_rewriting():
            time.sleep(0.02)
        self._server.stop()
        _copy(self._files, self._disk.folder / template)

    def settings(self) -> dict[str, str]:
        name, number = self._server.version()
        told = {"appendonly": "yes", "appendfsync": str(SETTINGS["appendfsync"])}
        return {f"{name}_version": number, **told}

    def close(self) -> None:
        self._server.close()
        self._disk.close()

    def _is_rewriting(self) -> bool:
        said = self._server.execute("INFO", "persistence")
        return bool(said["aof_rewrite_in_progress"] or said["aof_rewrite_scheduled"])

    @property
    def _files(self) -> Path:
        return self._disk.folder / FILES


def _copy(source: Path, target: Path) -> None:
    """Keeps the files' owner: they are the server's, which may be another user."""
    shutil.copytree(source, target)
    for old, new in zip([source, *sorted(source.iterdir())], [target, *sorted(target.iterdir())], strict=True):
        shutil.chown(new, old.stat().st_uid, old.stat().st_gid)
