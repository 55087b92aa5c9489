#!/usr/bin/env python
"""The example's command line: `python example_project/manage.py demo`, from wherever you are."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    if sys.argv[1:2] == ["demo"]:
        # The demo begins with an empty database and without jobs, and leaves alone what you try the shop with.
        os.environ.setdefault("SHOP_VAR", str(HERE / "var" / "demo"))
        if os.environ.get("SHOP_DATABASE"):
            os.environ["SHOP_DATABASE"] += "_demo"
        os.environ.setdefault("SHOP_PREFIX", "shop_demo")
    try:
        from django.core.management import execute_from_command_line
    except ImportError as error:
        raise SystemExit(
            "Django is not installed for this Python. `python runtests.py --demo`, beside this directory, makes an "
            "environment that has it and runs the demo there."
        ) from error
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
