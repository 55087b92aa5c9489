"""How a SQLite store is set up, held against what the guarantees need: two pragmas, the mount table, the free space.

The file is the one that SQLite says it has open. It is never opened here, and neither are its -wal and -shm: it is
only asked where it is and how much room there is.
"""

import os
from dataclasses import dataclass

from tinyjobs.backends.auditing import SETTINGS, AuditReport
from tinyjobs.backends.sql.connection import Connection
from tinyjobs.backends.sql.statements import Statements
from tinyjobs.backends.sqlite.mounts import Kind, Mount, mount_of, read_mounts
from tinyjobs.backends.sqlite.options import is_in_memory
from tinyjobs.core.sentences import Sentence, join, say
from tinyjobs.core.watching import Finding

#: The room that the disk must have, in bytes.
ROOM = 64 * 1024 * 1024

_MOUNTS = "/proc/self/mountinfo"
_LEVELS = ("OFF", "NORMAL", "FULL", "EXTRA")
_ON_A = {
    Kind.NETWORK: (
        (
            "%(path)s is on a network file system (%(kind)s), where SQLite's locks cannot be relied on and WAL has no "
            "shared memory."
        ),
        "Move the file to a local disk; for several machines, keep jobs in Postgres or Redis.",
    ),
    Kind.VOLATILE: ("%(path)s is in memory (%(kind)s), which a reboot empties.", "Move the file to a disk."),
    Kind.CONTAINER: (
        "%(path)s is in the writable layer of a container (%(kind)s), which is gone with the container.",
        "Put the file's folder on a volume.",
    ),
}


@dataclass(slots=True)
class _Report(AuditReport):
    path: str


async def audit(connection: Connection, statements: Statements, name: str) -> list[Finding]:
    """The problems, then what the store runs with. `name` is what the database was opened by."""
    ((journal_mode, synchronous, file),) = await connection.fetch(statements["audit"])
    if not file or is_in_memory(name):
        return [Finding(name=SETTINGS, ok=True, message=say("SQLite in memory: jobs end with the process."))]
    return findings(os.fsdecode(bytes(file)), str(journal_mode), int(synchronous))


def findings(path: str, journal_mode: str, synchronous: int) -> list[Finding]:
    """What follows from where the file is and how a connection has it."""
    report = _Report(os.path.realpath(path))
    _pragmas(report, journal_mode, synchronous)
    _place(report)
    _room(report)
    message = say("SQLite runs with %(settings)s.", settings=join(report.runs_with))
    if report.unknown:
        message = join([message, say("Not checked: %(settings)s.", settings=join(report.unknown))], " ")
    return report.ended(message)


def _pragmas(report: _Report, journal_mode: str, synchronous: int) -> None:
    level = _LEVELS[synchronous] if synchronous in range(len(_LEVELS)) else str(synchronous)
    report.runs_with += [f"journal_mode {journal_mode}", join([f"synchronous {level}", *_meaning(level)], " ")]
    if journal_mode.lower() != "wal":
        report.fail(
            "journal_mode",
            say(
                "%(path)s: journal_mode is %(mode)s, so whoever writes keeps all others from reading.",
                path=report.path,
                mode=journal_mode,
            ),
            say("Set PRAGMA journal_mode = WAL, once for the file. A worker does so when it opens it."),
        )
    if level == "OFF":
        report.fail(
            "synchronous",
            say("%(path)s: synchronous is OFF, so a power cut may spoil the whole file.", path=report.path),
            say("Set PRAGMA synchronous to NORMAL or FULL for every connection."),
        )


def _meaning(level: str) -> list[Sentence]:
    if level == "NORMAL":
        return [say("(what is committed outlives every crash of a process; a power cut may undo the last commits)")]
    return [say("(what is committed outlives a power cut)")] if level in ("FULL", "EXTRA") else []


def _place(report: _Report) -> None:
    """Whether it is where it survives a reboot and where SQLite's locks work. Linux alone tells."""
    mount = _mount(report.path)
    if mount is None:
        report.unknown.append(say("the file system"))
        return
    report.runs_with.append(say("the file system %(kind)s", kind=mount.kind_name))
    if mount.kind in _ON_A:
        message, remedy = _ON_A[mount.kind]
        report.fail("file_system", say(message, path=report.path, kind=mount.kind_name), say(remedy))
    if mount.point == report.path:
        report.fail(
            "file_mount",
            say(
                "%(path)s is a mount of that one file, so its -wal and -shm are made outside of it and vanish with "
                "the container.",
                path=report.path,
            ),
            say("Mount the folder that holds the file instead."),
        )


def _mount(path: str) -> Mount | None:
    try:
        with open(_MOUNTS, "rb") as table:
            mounts = read_mounts(table.read())
        device = _nearest(path).st_dev
    except OSError:
        return None
    return mount_of(path, (os.major(device), os.minor(device)), mounts)


def _room(report: _Report) -> None:
    folder = os.path.dirname(report.path)
    try:
        disk = os.statvfs(folder)
    except (OSError, AttributeError):
        disk = None
    if disk is None or not disk.f_blocks:
        report.unknown.append(say("the free space"))
        return
    free = disk.f_bavail * disk.f_frsize
    report.runs_with.append(say("%(size)s free", size=_shown(free)))
    if free < ROOM:
        report.fail(
            "free_space",
            say(
                "%(folder)s has %(size)s left, and SQLite refuses every write when it has none.",
                folder=folder,
                size=_shown(free),
            ),
            say("Make room: %(size)s at least.", size=_shown(ROOM)),
        )


def _nearest(path: str) -> os.stat_result:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return os.stat(os.path.dirname(path))


def _shown(size: int) -> str:
    for unit, scale in (("GB", 1024**3), ("MB", 1024**2)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size} bytes"
