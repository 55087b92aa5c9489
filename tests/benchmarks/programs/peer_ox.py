"""django-ox with its `ox_worker` command; its slots are threads."""

from __future__ import annotations

from django_program import DjangoProgram
from measuring import main


class Ox(DjangoProgram):
    name = "django-ox"
    apps = ("django_ox",)
    backend = "django_ox.backend.OxBackend"
    distribution = "django-ox"
    table = "django_ox_oxtask"
    open_jobs = "status IN ('READY', 'RUNNING')"
    finished_job = "status = 'SUCCESSFUL'"

    def enqueue_many(self, indexes: range) -> None:
        from django_ox.bulk import enqueue_many

        enqueue_many(self.stamp, [((index,), {}) for index in indexes])

    def command(self) -> list[str]:
        return ["ox_worker", "--verbosity", "0", "--concurrency", str(self.arguments.slots or 1)]


if __name__ == "__main__":
    main(Ox)
