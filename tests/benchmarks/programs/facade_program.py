"""What the programs with the facade `TinyJobs(url)` share: sending, and the worker by its own command."""

from __future__ import annotations

import runpy
import sys
from typing import Any

from measuring import Program


class FacadeProgram(Program):
    def load(self) -> None:
        import facade_tasks

        self.app = facade_tasks.app
        self.noop = getattr(facade_tasks, f"noop_{self.kind}")
        self.stamp = getattr(facade_tasks, f"stamp_{self.kind}")

    def enqueue(self, index: int) -> None:
        self.stamp.enqueue(index)

    def enqueue_delayed(self, index: int, delay: float) -> None:
        self.stamp.with_options(delay=delay).enqueue(index)

    def worker_flags(self) -> list[str]:
        raise NotImplementedError

    def work(self) -> None:
        sys.argv = ["tinyjobs", *self.worker_flags()]
        runpy.run_module("tinyjobs", run_name="__main__")

    def details(self) -> dict[str, Any]:
        from importlib.metadata import PackageNotFoundError, version

        try:
            return {"version": version("tinyjobs")}
        except PackageNotFoundError:
            return {"version": "working tree"}
