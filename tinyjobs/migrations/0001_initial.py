"""Version 1 of the tables: the store's own DDL runs, and the models are told what is there."""

import django.db.models.deletion
from django.db import migrations, models

from tinyjobs.taskbackend.layout import InstallLayout


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[InstallLayout("0001")],
            state_operations=[
                migrations.CreateModel(
                    name="Limit",
                    fields=[
                        ("task", models.CharField(max_length=255, primary_key=True, serialize=False)),
                        ("last_at", models.FloatField(db_default=0.0)),
                    ],
                    options={
                        "verbose_name": "limit",
                        "verbose_name_plural": "limits",
                        "db_table": "tinyjobs_limits",
                    },
                ),
                migrations.CreateModel(
                    name="Schedule",
                    fields=[
                        ("name", models.CharField(max_length=255, primary_key=True, serialize=False)),
                        ("cron", models.TextField()),
                        ("timezone", models.CharField(max_length=255)),
                        ("next_run_at", models.FloatField()),
                        ("last_run_at", models.FloatField(null=True)),
                        ("last_job_id", models.CharField(max_length=36, null=True)),
                        ("task", models.CharField(max_length=255)),
                        ("payload", models.BinaryField(null=True)),
                        ("codec", models.CharField(db_default="json", max_length=32)),
                        ("queue", models.CharField(max_length=255, null=True)),
                        ("priority", models.IntegerField(null=True)),
                        ("misfire", models.CharField(db_default="skip", max_length=16)),
                        ("overlap", models.BooleanField(db_default=False)),
                        ("source", models.CharField(db_default="code", max_length=16)),
                        ("error", models.TextField(null=True)),
                        ("skips", models.IntegerField(db_default=0)),
                    ],
                    options={
                        "verbose_name": "schedule",
                        "verbose_name_plural": "schedules",
                        "db_table": "tinyjobs_schedules",
                        "permissions": [("run_schedule", "Can run schedule")],
                    },
                ),
                migrations.CreateModel(
                    name="Job",
                    fields=[
                        ("id", models.CharField(max_length=36, primary_key=True, serialize=False)),
                        ("task", models.CharField(max_length=255)),
                        ("queue", models.CharField(max_length=255)),
                        ("status", models.CharField(max_length=16)),
                        ("priority", models.IntegerField(db_default=0)),
                        ("attempts", models.IntegerField(db_default=0)),
                        ("max_attempts", models.IntegerField(db_default=1)),
                        ("hand_backs", models.IntegerField(db_default=0)),
                        ("claims", models.IntegerField(db_default=0)),
                        ("run_at", models.FloatField()),
                        ("created_at", models.FloatField()),
                        ("started_at", models.FloatField(null=True)),
                        ("finished_at", models.FloatField(null=True)),
                        ("ready_at", models.FloatField(null=True)),
                        ("due_at", models.FloatField(null=True)),
                        ("lease_expires_at", models.FloatField(null=True)),
                        ("held_at", models.FloatField(null=True)),
                        ("lapses_at", models.FloatField(null=True)),
                        ("expires_at", models.FloatField(null=True)),
                        ("scheduled_for", models.FloatField(null=True)),
                        ("waiting_on", models.CharField(max_length=36, null=True)),
                        ("runs_after", models.CharField(max_length=36, null=True)),
                        ("worker_id", models.CharField(max_length=255, null=True)),
                        ("dedup_key", models.TextField(null=True)),
                        ("active_key", models.TextField(null=True)),
                        ("codec", models.CharField(db_default="json", max_length=32)),
                        ("last_error", models.TextField(null=True)),
                        ("metadata", models.TextField(null=True)),
                        ("payload", models.BinaryField()),
                        ("result", models.BinaryField(null=True)),
                    ],
                    options={
                        "verbose_name": "job",
                        "verbose_name_plural": "jobs",
                        "db_table": "tinyjobs_jobs",
                        "permissions": [
                            ("retry_job", "Can retry job"),
                            ("cancel_job", "Can cancel job"),
                            ("pause_queue", "Can pause queue"),
                        ],
                        "indexes": [
                            models.Index(
                                condition=models.Q(("ready_at__isnull", False)),
                                fields=["queue", "-priority", "ready_at", "id"],
                                name="tinyjobs_jobs_ready",
                            ),
                            models.Index(
                                condition=models.Q(("due_at__isnull", False)),
                                fields=["due_at", "id"],
                                name="tinyjobs_jobs_due",
                            ),
                            models.Index(
                                condition=models.Q(("lease_expires_at__isnull", False)),
                                fields=["lease_expires_at"],
                                name="tinyjobs_jobs_lease",
                            ),
                            models.Index(
                                condition=models.Q(("waiting_on__isnull", False)),
                                fields=["waiting_on"],
                                name="tinyjobs_jobs_waiting",
                            ),
                            models.Index(
                                condition=models.Q(("held_at__isnull", False)),
                                fields=["task", "queue", "-priority", "held_at", "id"],
                                name="tinyjobs_jobs_held",
                            ),
                            models.Index(
                                condition=models.Q(("lapses_at__isnull", False)),
                                fields=["lapses_at", "id"],
                                name="tinyjobs_jobs_lapse",
                            ),
                            models.Index(
                                condition=models.Q(("finished_at__isnull", False)),
                                fields=["status", "finished_at"],
                                name="tinyjobs_jobs_ended",
                            ),
                            models.Index(
                                condition=models.Q(("status__in", ("failed", "cancelled"))),
                                fields=["status", "id"],
                                name="tinyjobs_jobs_unsuccessful",
                            ),
                            models.Index(fields=["queue", "id"], name="tinyjobs_jobs_by_queue"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("active_key__isnull", False)),
                                fields=("active_key",),
                                name="tinyjobs_jobs_key",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Execution",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "job_id", "claim", blank=True, editable=False, primary_key=True, serialize=False
                            ),
                        ),
                        ("claim", models.IntegerField()),
                        ("attempt", models.IntegerField()),
                        ("status", models.CharField(max_length=16)),
                        ("worker_id", models.CharField(max_length=255)),
                        ("started_at", models.FloatField()),
                        ("finished_at", models.FloatField(null=True)),
                        ("error_type", models.CharField(max_length=255, null=True)),
                        ("traceback", models.TextField(null=True)),
                        (
                            "job",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="executions",
                                to="tinyjobs.job",
                            ),
                        ),
                    ],
                    options={
                        "verbose_name": "execution",
                        "verbose_name_plural": "executions",
                        "db_table": "tinyjobs_executions",
                    },
                ),
                migrations.CreateModel(
                    name="Worker",
                    fields=[
                        ("worker_id", models.CharField(max_length=255, primary_key=True, serialize=False)),
                        ("host", models.CharField(max_length=255)),
                        ("pid", models.IntegerField()),
                        ("version", models.CharField(max_length=64)),
                        ("started_at", models.FloatField()),
                        ("seen_at", models.FloatField()),
                        ("queues", models.TextField(db_default="[]")),
                        ("threads", models.IntegerField(db_default=0)),
                        ("coroutines", models.IntegerField(db_default=0)),
                        ("running", models.IntegerField(db_default=0)),
                        ("is_stopping", models.BooleanField(db_default=False)),
                        ("scheduled_at", models.FloatField(null=True)),
                    ],
                    options={
                        "verbose_name": "worker",
                        "verbose_name_plural": "workers",
                        "db_table": "tinyjobs_workers",
                    },
                ),
                migrations.CreateModel(
                    name="Tally",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "minute",
                                "owner",
                                "queue",
                                blank=True,
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("minute", models.BigIntegerField()),
                        ("owner", models.CharField(max_length=255)),
                        ("queue", models.CharField(max_length=255)),
                        ("minutes", models.IntegerField(db_default=1)),
                        ("success", models.BigIntegerField(db_default=0)),
                        ("failed", models.BigIntegerField(db_default=0)),
                        ("cancelled", models.BigIntegerField(db_default=0)),
                        ("succeeded", models.BigIntegerField(db_default=0)),
                        ("unsuccessful", models.BigIntegerField(db_default=0)),
                        ("ended_cancelled", models.BigIntegerField(db_default=0)),
                        ("waited", models.FloatField(db_default=0.0)),
                        ("ran", models.FloatField(db_default=0.0)),
                        ("longest_wait", models.FloatField(db_default=0.0)),
                        ("longest_run", models.FloatField(db_default=0.0)),
                    ],
                    options={
                        "verbose_name": "tally",
                        "verbose_name_plural": "tallies",
                        "db_table": "tinyjobs_tallies",
                    },
                ),
            ],
        ),
    ]
