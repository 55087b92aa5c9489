"""What a SQLite store says of its own settings, on file systems that are really there."""

import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from tinyjobs.backends.sqlite import audit as auditing
from tinyjobs.backends.sqlite.backend import SQLiteBackend
from tinyjobs.core.inline import finish

SHM = Path("/dev/shm")


@pytest.fixture
def audited():
    """Audits a store at a path or URI; what fails by name, and the line that sums up."""
    stores = []

    def audit(path, **options):
        store = SQLiteBackend(str(path), **options)
        stores.append(store)
        *failed, told = finish(store.inline().audit())
        assert told.name == "settings"
        assert told.ok
        assert all(not finding.ok and finding.remedy for finding in failed)
        return [finding.name for finding in failed], told

    yield audit
    for store in stores:
        finish(store.inline().close())


@pytest.fixture
def on_a_disk(monkeypatch, tmp_path):
    """As if the tests' folder were on a local disk with room, whatever this machine has there."""
    device = os.stat(tmp_path).st_dev
    table = tmp_path / "mountinfo"
    table.write_text(f"27 1 {os.major(device)}:{os.minor(device)} / / rw - ext4 /dev/vda rw\n")
    monkeypatch.setattr(auditing, "_MOUNTS", str(table))
    _give_room(monkeypatch, 10 * auditing.ROOM)


def _give_room(monkeypatch, free, blocks=1_000_000):
    disk = SimpleNamespace(f_bavail=free // 4096, f_frsize=4096, f_blocks=blocks)
    monkeypatch.setattr(auditing.os, "statvfs", lambda path: disk)


@pytest.mark.usefixtures("on_a_disk")
def test_a_file_on_a_disk_is_in_order(audited, tmp_path):
    failed, told = audited(tmp_path / "jobs.db")
    assert failed == []
    assert not told.is_unknown
    for word in ("wal", "NORMAL", "power cut", "ext4", "640 MB"):
        assert word in told.message


@pytest.mark.usefixtures("on_a_disk")
def test_full_is_told_to_outlive_a_power_cut(audited, tmp_path):
    failed, told = audited(tmp_path / "jobs.db", synchronous="FULL")
    assert failed == []
    assert "synchronous FULL (what is committed outlives a power cut)" in told.message


@pytest.mark.usefixtures("on_a_disk")
@pytest.mark.parametrize(
    ("pragma", "name"), [("journal_mode = DELETE", "journal_mode"), ("synchronous = OFF", "synchronous")]
)
def test_a_connection_that_somebody_else_has_set_up(tmp_path, pragma, name):
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as raw:
        raw.execute("PRAGMA journal_mode = WAL")
        raw.execute(f"PRAGMA {pragma}")
        ((mode, level, file),) = raw.execute(_statement())
    failed = [finding for finding in auditing.findings(os.fsdecode(file), mode, level) if not finding.ok]
    assert [finding.name for finding in failed] == [name]
    assert str(tmp_path) in failed[0].message


def _statement():
    return SQLiteBackend(":memory:").statements["audit"].qmark


@pytest.mark.parametrize(
    "path",
    [
        ":memory:",
        "file:jobs.db?mode=memory",
        "file:jobs.db?mode=rwc&mode=memory",
        "file:/x/jobs.db?vfs=memdb",
        "file::memory:?cache=shared",
    ],
)
def test_a_store_in_memory_is_in_order(audited, path):
    failed, told = audited(path)
    assert failed == []
    assert "in memory" in told.message


@pytest.mark.usefixtures("on_a_disk")
def test_the_last_of_a_parameter_that_is_given_twice_counts(audited, tmp_path):
    failed, told = audited(f"file:{tmp_path}/jobs.db?mode=memory&mode=rwc")
    assert failed == []
    assert "ext4" in told.message


@pytest.mark.usefixtures("on_a_disk")
@pytest.mark.parametrize("name", ["jobs.db?mode=memory", "a#b.db", "ü.db"])
def test_a_name_that_is_no_uri_is_taken_as_it_is(audited, tmp_path, name):
    failed, told = audited(tmp_path / name)
    assert failed == []
    assert "ext4" in told.message


@pytest.mark.usefixtures("on_a_disk")
def test_a_name_that_is_no_text(audited, tmp_path):
    try:
        path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.db")
        sqlite3.connect(path).close()
    except (OSError, sqlite3.Error, UnicodeError) as error:
        pytest.skip(f"this file system or Python takes no such name: {error}")
    failed, told = audited(path)
    assert failed == []
    assert "ext4" in told.message


@pytest.mark.usefixtures("on_a_disk")
@pytest.mark.parametrize(("free", "names"), [(auditing.ROOM - 4096, ["free_space"]), (auditing.ROOM, [])])
def test_a_disk_that_is_nearly_full(audited, tmp_path, monkeypatch, free, names):
    _give_room(monkeypatch, free)
    assert audited(tmp_path / "jobs.db")[0] == names


@pytest.mark.usefixtures("on_a_disk")
def test_a_disk_that_does_not_answer_is_not_checked(audited, tmp_path, monkeypatch):
    def refuse(path):
        raise OSError("stale")

    monkeypatch.setattr(auditing.os, "statvfs", refuse)
    failed, told = audited(tmp_path / "jobs.db")
    assert failed == []
    assert told.is_unknown
    assert "Not checked: the free space" in told.message


@pytest.mark.usefixtures("on_a_disk")
def test_a_disk_that_counts_no_blocks_is_not_checked(audited, tmp_path, monkeypatch):
    _give_room(monkeypatch, 0, blocks=0)
    failed, told = audited(tmp_path / "jobs.db")
    assert failed == []
    assert told.is_unknown


@pytest.mark.usefixtures("on_a_disk")
def test_without_a_table_of_mounts_the_file_system_is_not_checked(audited, tmp_path, monkeypatch):
    monkeypatch.setattr(auditing, "_MOUNTS", str(tmp_path / "nothing"))
    failed, told = audited(tmp_path / "jobs.db")
    assert failed == []
    assert told.is_unknown
    assert "Not checked: the file system" in told.message


@pytest.mark.skipif(not SHM.is_dir() or not os.path.ismount(SHM), reason="/dev/shm is no mount here")
def test_a_real_tmpfs(audited):
    path = SHM / f"tinyjobs-{os.getpid()}.db"
    try:
        failed, told = audited(path)
        assert "file_system" in failed
        assert "tmpfs" in told.message
    finally:
        for file in SHM.glob(f"{path.name}*"):
            file.unlink()


def test_a_link_is_followed_to_where_the_file_is(audited, tmp_path):
    if not SHM.is_dir() or not os.path.ismount(SHM):
        pytest.skip("/dev/shm is no mount here")
    path = SHM / f"tinyjobs-link-{os.getpid()}.db"
    (tmp_path / "jobs.db").symlink_to(path)
    try:
        assert "file_system" in audited(tmp_path / "jobs.db")[0]
    finally:
        for file in SHM.glob(f"{path.name}*"):
            file.unlink()


@pytest.fixture
def mount():
    """Mounts, and unmounts after the test; skips where that is not allowed."""
    points = []

    def do(*arguments, point):
        try:
            tried = subprocess.run(["mount", *arguments, str(point)], capture_output=True, text=True, timeout=60)
        except FileNotFoundError:
            pytest.skip("there is no mount program")
        if tried.returncode:
            pytest.skip(f"mounting is not permitted here: {tried.stderr.strip()}")
        points.append(point)

    yield do
    for point in points:
        subprocess.run(["umount", "-l", str(point)], check=True, timeout=60)


def test_a_real_mount_of_the_one_file(audited, tmp_path, mount):
    here, there = tmp_path / "here.db", tmp_path / "there.db"
    here.touch()
    there.touch()
    mount("--bind", str(there), point=here)
    assert "file_mount" in audited(here)[0]


def test_a_real_mount_of_the_folder_is_no_trouble(audited, tmp_path, mount):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    mount("--bind", str(there), point=here)
    assert "file_mount" not in audited(here / "jobs.db")[0]


def test_a_real_disk_with_little_room(audited, tmp_path, mount):
    mount("-t", "tmpfs", "-o", "size=8m", "tmpfs", point=tmp_path)
    assert set(audited(tmp_path / "jobs.db")[0]) == {"file_system", "free_space"}


def test_the_file_is_never_opened_by_hand(audited, tmp_path, monkeypatch):
    """A descriptor of our own would drop this process's locks when it is closed."""
    opened = []
    plain_open = open

    def noting(path, *arguments, **named):
        opened.append(os.fspath(path))
        return plain_open(path, *arguments, **named)

    monkeypatch.setattr("builtins.open", noting)
    monkeypatch.setattr(auditing.os, "open", noting)
    audited(tmp_path / "jobs.db")
    assert opened
    assert not [path for path in opened if "jobs.db" in str(path)]
