"""Every page's code blocks run, in a directory of the page's own, in a process of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, all_pages, blocks

PROJECT = Path(__file__).parent / "project"
#: Pages that begin with nothing. The others find a small Django project around them.
FROM_NOTHING = {
    "README.md",
    "docs/tutorial.md",
    "docs/how-to/without_django.md",
    "docs/how-to/web_servers.md",
    "docs/how-to/write_a_store.md",
}
#: Pages whose code needs a server; its URL is in DATABASE_URL.
ON_POSTGRES = {"docs/how-to/postgres.md"}
#: The same; its URL is in REDIS_URL.
ON_REDIS = {"docs/how-to/redis.md"}
WITH_CODE = [page for page in all_pages() if any(block.language in ("python", "console") for block in blocks(page))]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page, marks=[pytest.mark.postgres] * (page in ON_POSTGRES) + [pytest.mark.redis] * (page in ON_REDIS)
        )
        for page in WITH_CODE
    ],
)
def test_the_code_on_the_page_runs(page, tmp_path, request):
    if page not in FROM_NOTHING:
        shutil.copytree(PROJECT, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    environment["PYTHONPATH"] = str(ROOT)
    if page in ON_POSTGRES:
        environment["DATABASE_URL"] = request.getfixturevalue("postgres_url")
    if page in ON_REDIS:
        environment["REDIS_URL"] = request.getfixturevalue("redis_url")
    done = subprocess.run(
        [sys.executable, "-m", "tests.docs.session", page],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_block_that_fails_fails_its_page(tmp_path, monkeypatch):
    from tests.docs import session

    monkeypatch.setattr("tests.docs.pages.ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("Text.\n\n```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(AssertionError):
        session.run_page("docs/page.md")


def test_no_python_block_is_overlooked():
    """A fence that the reader of blocks does not know would be code that nobody runs."""
    for page in all_pages():
        fences = [line.strip() for line in (ROOT / page).read_text("utf-8").splitlines() if line.strip()[:3] == "```"]
        assert len(fences) == 2 * len(blocks(page)), page
        languages = {fence for fence in fences if fence != "```"}
        others = {"```text", "```ini", "```dockerfile", "```sql", "```toml", "```yaml", "```json"}
        assert languages <= {"```python", "```console", *others}, page
