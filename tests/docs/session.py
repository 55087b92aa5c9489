"""Runs one page in the current directory: `python -m tests.docs.session docs/tutorial.md`.

Blocks run in the page's order and share one namespace, as in one long sitting. A Python block that names a file is
written there; a console block's commands are run, as far as they concern the project at hand. A prelude of the page's
name sets the scene. What fails ends the process, with the page's own line in the traceback.
"""

import importlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.docs.pages import ROOT, Block, blocks

PRELUDES = Path(__file__).parent / "preludes"
# Commands that set up a machine, or that run until somebody stops them.
_NOT_RUN = re.compile(
    r"(\S*python3? -m (venv|pip)|(\w+=\S+ )?python3? runtests\.py|git |pip "
    r"|\S+ manage\.py runserver|tinyjobs dashboard|python -m tests\.)"
)


def run_page(page: str) -> None:
    """Run everything that can be run on a page."""
    sys.path.insert(0, os.getcwd())
    namespace: dict[str, Any] = {"__name__": "page"}
    prelude = PRELUDES / Path(page).relative_to("docs") if page.startswith("docs/") else PRELUDES / page
    prelude = prelude.with_suffix(".py")
    if prelude.exists():
        exec(compile(prelude.read_text("utf-8"), str(prelude), "exec"), namespace)
    for block in blocks(page):
        if block.file is not None:
            write(block)
        elif block.language == "python":
            # A prelude may leave something to be done before the first block that is run, and once.
            namespace.pop("before_code", lambda: None)()
            # Padded, so that a traceback shows the line in the page.
            exec(compile("\n" * (block.line - 1) + block.text, str(ROOT / page), "exec"), namespace)
        elif block.language == "console":
            for command in commands(block):
                run_command(command)
    if any(block.file and block.file.endswith("settings.py") for block in blocks(page)):
        run_command("python manage.py check")  # what the page has the reader set is right


def write(block: Block) -> None:
    """Put the block into its file, and have the next import see it."""
    path = Path(str(block.file))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a" if block.at_the_end else "w", encoding="utf-8") as file:
        file.write("\n\n" + block.text if block.at_the_end else block.text)
    importlib.invalidate_caches()
    name = ".".join(path.with_suffix("").parts)
    if sys.modules.pop(name, None) is not None and "django" in sys.modules:
        from tinyjobs.taskbackend.shared import forget

        forget()


def commands(block: Block) -> list[str]:
    """The command lines of a console block; a backslash at the end of a line joins the next."""
    joined = block.text.replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines() if line.strip() and not line.startswith("#")]


def run_command(command: str) -> None:
    """Run a command of the page's reader; a worker is told to end when it has nothing to do."""
    if _NOT_RUN.match(command):
        return
    words = shlex.split(command)
    if "worker" in words and "--until-empty" not in words and "--help" not in words:
        words += ["--until-empty", *(["--no-reload"] if "manage.py" in words else [])]
    if words[0] == "python":
        words[0] = sys.executable
    elif words[0] == "django-admin":
        words[:1] = [sys.executable, "-m", "django"]
    else:
        raise SystemExit(f"{command!r}: a console block runs python or django-admin, or is left out by name.")
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    print(f"$ {command}\n{done.stdout}{done.stderr}")
    if done.returncode != 0:
        raise SystemExit(f"{command!r} ended with status {done.returncode}")


if __name__ == "__main__":
    run_page(sys.argv[1])
