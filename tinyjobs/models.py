"""The tables as Django sees them: for the admin, for permissions and for queries that read.

The tables themselves come from the store's own DDL, which the migrations run; these classes describe it, and a test
holds the two against each other. Jobs change by the store's verbs only, so nothing here writes.
"""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class Job(models.Model):
    """A row of `tinyjobs_jobs`. Instants are unix seconds; `payload` and `result` are encoded by `codec`."""

    id = models.CharField(primary_key=True, max_length=36)
    task = models.CharField(max_length=255)
    queue = models.CharField(max_length=255)
    status = models.CharField(max_length=16)
    priority = models.IntegerField(db_default=0)
    attempts = models.IntegerField(db_default=0)
    max_attempts = models.IntegerField(db_default=1)
    hand_backs = models.IntegerField(db_default=0)
    claims = models.IntegerField(db_default=0)
    run_at = models.FloatField()
    created_at = models.FloatField()
    started_at = models.FloatField(null=True)
    finished_at = models.FloatField(null=True)
    ready_at = models.FloatField(null=True)
    due_at = models.FloatField(null=True)
    lease_expires_at = models.FloatField(null=True)
    held_at = models.FloatField(null=True)
    lapses_at = models.FloatField(null=True)
    expires_at = models.FloatField(null=True)
    scheduled_for = models.FloatField(null=True)
    waiting_on = models.CharField(max_length=36, null=True)
    runs_after = models.CharField(max_length=36, null=True)
    worker_id = models.CharField(max_length=255, null=True)
    dedup_key = models.TextField(null=True)
    active_key = models.TextField(null=True)
    codec = models.CharField(max_length=32, db_default="json")
    last_error = models.TextField(null=True)
    metadata = models.TextField(null=True)
    payload = models.BinaryField()
    result = models.BinaryField(null=True)

    class Meta:
        db_table = "tinyjobs_jobs"
        verbose_name = _("job")
        verbose_name_plural = _("jobs")
        permissions: ClassVar = [
            ("retry_job", "Can retry job"),
            ("cancel_job", "Can cancel job"),
            ("pause_queue", "Can pause queue"),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["queue", "-priority", "ready_at", "id"],
                name="tinyjobs_jobs_ready",
                condition=Q(ready_at__isnull=False),
            ),
            models.Index(fields=["due_at", "id"], name="tinyjobs_jobs_due", condition=Q(due_at__isnull=False)),
            models.Index(
                fields=["lease_expires_at"], name="tinyjobs_jobs_lease", condition=Q(lease_expires_at__isnull=False)
            ),
            models.Index(fields=["waiting_on"], name="tinyjobs_jobs_waiting", condition=Q(waiting_on__isnull=False)),
            models.Index(
                fields=["task", "queue", "-priority", "held_at", "id"],
                name="tinyjobs_jobs_held",
                condition=Q(held_at__isnull=False),
            ),
            models.Index(fields=["lapses_at", "id"], name="tinyjobs_jobs_lapse", condition=Q(lapses_at__isnull=False)),
            models.Index(
                fields=["status", "finished_at"], name="tinyjobs_jobs_ended", condition=Q(finished_at__isnull=False)
            ),
            models.Index(
                fields=["status", "id"],
                name="tinyjobs_jobs_unsuccessful",
                condition=Q(status__in=("failed", "cancelled")),
            ),
            models.Index(fields=["queue", "id"], name="tinyjobs_jobs_by_queue"),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["active_key"], name="tinyjobs_jobs_key", condition=Q(active_key__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task} {self.id}"


class Execution(models.Model):
    """A row of `tinyjobs_executions`: one attempt that has ended. A running one stands in its job's row."""

    pk = models.CompositePrimaryKey("job_id", "claim")
    # The store deletes executions with their jobs by itself, so the database is asked for no foreign key.
    job = models.ForeignKey(
        Job, on_delete=models.CASCADE, related_name="executions", db_constraint=False, db_index=False
    )
    claim = models.IntegerField()
    attempt = models.IntegerField()
    status = models.CharField(max_length=16)
    worker_id = models.CharField(max_length=255)
    started_at = models.FloatField()
    finished_at = models.FloatField(null=True)
    error_type = models.CharField(max_length=255, null=True)
    traceback = models.TextField(null=True)

    class Meta:
        db_table = "tinyjobs_executions"
        verbose_name = _("execution")
        verbose_name_plural = _("executions")

    def __str__(self) -> str:
        return f"{self.job_id} attempt {self.attempt}: {self.status}"


class Schedule(models.Model):
    """A row of `tinyjobs_schedules`: a rule that makes jobs, and where it stands. `payload` is encoded by `codec`.

    `source` is `code` for what the code and the settings declare, `data` for what was made at run time; `error` tells
    why the latter has stopped itself. A paused schedule stands at a `next_run_at` that never comes.
    """

    name = models.CharField(primary_key=True, max_length=255)
    cron = models.TextField()
    timezone = models.CharField(max_length=255)
    next_run_at = models.FloatField()
    last_run_at = models.FloatField(null=True)
    last_job_id = models.CharField(max_length=36, null=True)
    task = models.CharField(max_length=255)
    payload = models.BinaryField(null=True)
    codec = models.CharField(max_length=32, db_default="json")
    queue = models.CharField(max_length=255, null=True)
    priority = models.IntegerField(null=True)
    misfire = models.CharField(max_length=16, db_default="skip")
    overlap = models.BooleanField(db_default=False)
    source = models.CharField(max_length=16, db_default="code")
    error = models.TextField(null=True)
    skips = models.IntegerField(db_default=0)

    class Meta:
        db_table = "tinyjobs_schedules"
        verbose_name = _("schedule")
        verbose_name_plural = _("schedules")
        permissions: ClassVar = [("run_schedule", "Can run schedule")]

    def __str__(self) -> str:
        return self.name


class Limit(models.Model):
    """A row of `tinyjobs_limits`: when a rate-limited task last started."""

    task = models.CharField(primary_key=True, max_length=255)
    last_at = models.FloatField(db_default=0.0)

    class Meta:
        db_table = "tinyjobs_limits"
        verbose_name = _("limit")
        verbose_name_plural = _("limits")

    def __str__(self) -> str:
        return self.task


class Worker(models.Model):
    """A row of `tinyjobs_workers`: a worker as it last told of itself. `queues` is a JSON list, empty for all."""

    worker_id = models.CharField(primary_key=True, max_length=255)
    host = models.CharField(max_length=255)
    pid = models.IntegerField()
    version = models.CharField(max_length=64)
    started_at = models.FloatField()
    seen_at = models.FloatField()
    queues = models.TextField(db_default="[]")
    threads = models.IntegerField(db_default=0)
    coroutines = models.IntegerField(db_default=0)
    running = models.IntegerField(db_default=0)
    is_stopping = models.BooleanField(db_default=False)
    scheduled_at = models.FloatField(null=True)

    class Meta:
        db_table = "tinyjobs_workers"
        verbose_name = _("worker")
        verbose_name_plural = _("workers")

    def __str__(self) -> str:
        return self.worker_id


class Tally(models.Model):
    """A row of `tinyjobs_tallies`: kept counters of one queue over `minutes` minutes from `minute` on, since 1970.

    `success`, `failed` and `cancelled` are the change in how many jobs stand with that status; their sums over all
    rows are the counts. The others tell what ended in that time; `waited` and `ran` are in seconds.
    """

    pk = models.CompositePrimaryKey("minute", "owner", "queue")
    minute = models.BigIntegerField()
    owner = models.CharField(max_length=255)
    queue = models.CharField(max_length=255)
    minutes = models.IntegerField(db_default=1)
    success = models.BigIntegerField(db_default=0)
    failed = models.BigIntegerField(db_default=0)
    cancelled = models.BigIntegerField(db_default=0)
    succeeded = models.BigIntegerField(db_default=0)
    unsuccessful = models.BigIntegerField(db_default=0)
    ended_cancelled = models.BigIntegerField(db_default=0)
    waited = models.FloatField(db_default=0.0)
    ran = models.FloatField(db_default=0.0)
    longest_wait = models.FloatField(db_default=0.0)
    longest_run = models.FloatField(db_default=0.0)

    class Meta:
        db_table = "tinyjobs_tallies"
        verbose_name = _("tally")
        verbose_name_plural = _("tallies")

    def __str__(self) -> str:
        return f"{self.queue} {self.minute} {self.owner}"
