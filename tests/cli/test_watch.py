"""Whether a change of a source file is seen, and whether anything else is taken for one."""

import os
import sys

import pytest

from tinyjobs.cli import watch
from tinyjobs.cli.watch import SourceWatch, source_folders


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The only folder that is watched."""
    monkeypatch.setattr(watch, "source_folders", lambda: {str(tmp_path)})
    (tmp_path / "old.py").write_text("1")
    return tmp_path


def test_nothing_changed(folder):
    assert SourceWatch().changed() is None


def test_a_file_that_was_written(folder):
    seen = SourceWatch()
    (folder / "old.py").write_text("22")
    assert seen.changed() == str(folder / "old.py")


def test_a_file_of_the_same_size_and_another_time(folder):
    seen = SourceWatch()
    os.utime(folder / "old.py", ns=(0, 1))
    assert seen.changed() == str(folder / "old.py")


def test_a_file_that_came_and_one_that_went(folder):
    seen = SourceWatch()
    (folder / "new.py").write_text("")
    assert seen.changed() == str(folder / "new.py")
    seen = SourceWatch()
    (folder / "old.py").unlink()
    assert seen.changed() == str(folder / "old.py")


@pytest.mark.parametrize("name", ["notes.txt", "jobs.db-wal", ".#old.py", "old.pyc"])
def test_what_is_no_source(folder, name):
    seen = SourceWatch()
    (folder / name).write_text("")
    assert seen.changed() is None


def test_a_lock_of_an_editor_that_points_nowhere(folder):
    seen = SourceWatch()
    os.symlink("nobody@nowhere", folder / "broken.py")
    assert seen.changed() == str(folder / "broken.py")
    assert SourceWatch().changed() is None


def test_a_folder_that_is_watched_later_is_taken_as_it_is(folder, tmp_path_factory, monkeypatch):
    seen = SourceWatch()
    later = tmp_path_factory.mktemp("later")
    (later / "module.py").write_text("")
    monkeypatch.setattr(watch, "source_folders", lambda: {str(folder), str(later)})
    assert seen.changed() is None
    (later / "module.py").write_text("changed")
    assert seen.changed() == str(later / "module.py")


def test_a_folder_that_is_gone(folder, monkeypatch):
    seen = SourceWatch()
    (folder / "old.py").unlink()
    folder.rmdir()
    assert seen.changed() == str(folder / "old.py")


def test_installed_packages_and_the_standard_library_are_not_watched():
    folders = source_folders()
    assert os.path.dirname(os.path.dirname(watch.__file__)) in folders
    for module in ("json", "pytest", "django"):
        assert os.path.dirname(sys.modules[module].__file__) not in folders
