"""django-vtasks with its Valkey backend, its own driver and uvloop, and its `runworker` command.

A worker moves a job to a list of its own and takes it away from there when the job ends.
"""

from __future__ import annotations

from typing import Any

from django_program import DjangoProgram
from measuring import main

QUEUE = "{vt}:q:default"
PROCESSING = "{vt}:processing:*"


class VTasksOnRedis(DjangoProgram):
    name = "django-vtasks"
    apps = ("django_vtasks",)
    backend = "django_vtasks.backends.valkey.ValkeyTaskBackend"
    decorator = "django_vtasks.task"
    distribution = "django-vtasks"

    def options(self) -> dict[str, Any]:
        return {"BROKER_URL": self.arguments.store}

    def enqueue_many(self, indexes: range) -> None:
        self._backend().enqueue_many([(self.stamp, (index,), {}) for index in indexes])

    def load_noops(self, jobs: int) -> None:
        self._backend().enqueue_many([(self.noop, (), {})] * jobs)

    def _backend(self) -> Any:
        from django.tasks import task_backends

        return task_backends["default"]

    def command(self) -> list[str]:
        return ["runworker", "--concurrency", str(self.arguments.slots or 20)]

    def unfinished(self) -> bool:
        client = self.store.client
        return bool(client.llen(QUEUE) or client.keys(PROCESSING))

    def finished(self) -> int | None:
        return None


if __name__ == "__main__":
    main(VTasksOnRedis)
