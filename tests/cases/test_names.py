"""Odd queue names, priorities and times: kept exactly and usable everywhere, or refused where they are given."""

import datetime
import enum
import io

import pytest
from django.core.management import CommandError, call_command
from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist
from django.test import TestCase, override_settings
from django.utils import timezone

from tests.taskbackend.shop import tasks
from tinyjobs import TinyJobs
from tinyjobs.core.clock import FrozenClock
from tinyjobs.core.errors import ConfigurationError, JobNotFoundError
from tinyjobs.models import Job
from tinyjobs.taskbackend.shared import use_clock
from tinyjobs.testing import drain

ANY_QUEUE = override_settings(TASKS={"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "QUEUES": []}})


class Urgency(enum.IntEnum):
    HIGH = 50


@ANY_QUEUE
class QueueNamesTests(TestCase):
    def test_odd_names_are_kept_and_served(self):
        names = ["a b", "a:b", "'quoted\"", "{x}", "%s", "%(a)s", "x" * 255, "\U0001f680", "\u05d0\u05d1", "-"]
        for name in names:
            with self.subTest(name=name):
                result = tasks.add.using(queue_name=name).enqueue(1)
                self.assertEqual(drain(queues=[name]), 1)
                result.refresh()
                self.assertEqual((result.task.queue_name, result.return_value), (name, 2))

    def test_names_that_differ_by_little_are_different_queues(self):
        tasks.add.using(queue_name="mail").enqueue(1)
        for other in ("Mail", "mai", "mail2", "m_il", "%", "m%"):
            self.assertEqual(drain(queues=[other]), 0)
        self.assertEqual(drain(queues=["mail"]), 1)

    def test_names_that_no_command_line_could_give_are_refused(self):
        for name in ("", "a,b", "*", "mail*", " a", "a ", "a\n", "a\x00b", "\u202eliam", "\ud800", "x" * 256, 7, None):
            with self.subTest(name=name), self.assertRaisesRegex(InvalidTask, "queue_name|no name of a queue"):
                object.__setattr__(copy := tasks.add.using(), "queue_name", name)
                copy.enqueue(1)
        with self.assertRaisesMessage(InvalidTask, "comma"):
            tasks.add.using(queue_name="a,b")
        self.assertFalse(Job.objects.exists())


class PriorityTests(TestCase):
    def test_the_range_is_djangos_and_its_ends_belong_to_it(self):
        for priority in (-100, -1, 0, 100, Urgency.HIGH):
            result = tasks.add.using(priority=priority).enqueue(1)
            self.assertEqual(tasks.add.get_result(result.id).task.priority, priority)
        for priority in (-101, 101, -(2**31), 2**31, 2**63, 10**5000, 1.5, True, False, "1", [1]):
            with self.subTest(priority=type(priority)), self.assertRaisesMessage(InvalidTask, "whole number"):
                tasks.add.using(priority=priority)

    def test_higher_ones_first_and_the_older_among_equals(self):
        order = [0, 100, -100, 0, 100]
        sent = [tasks.add.using(priority=priority).enqueue(1) for priority in order]
        ran = []
        for _ in order:
            self.assertEqual(drain(limit=1), 1)
            ran.append(Job.objects.exclude(pk__in=ran).get(status="success").pk)
        self.assertEqual(ran, [sent[place].id for place in (1, 4, 0, 3, 2)])


class TimesTests(TestCase):
    def setUp(self):
        use_clock(FrozenClock(2_000_000_000.0))
        self.addCleanup(use_clock, None)

    def test_however_long_ago_is_now(self):
        east = datetime.timezone(datetime.timedelta(hours=14))
        for past in (
            datetime.datetime(1, 1, 1, tzinfo=datetime.UTC),
            datetime.datetime(1, 1, 1, tzinfo=east),
            datetime.timedelta(seconds=-1),
            datetime.timedelta(days=-800_000),
            datetime.timedelta.min,
        ):
            with self.subTest(past=past):
                result = tasks.add.using(run_after=past).enqueue(1)
                self.assertEqual(drain(), 1)
                result.refresh()
                self.assertEqual(result.return_value, 2)

    def test_what_no_calendar_shows_is_refused_with_the_reason(self):
        west = datetime.timezone(datetime.timedelta(hours=-12))
        for future in (
            datetime.datetime.max.replace(tzinfo=west),
            datetime.datetime(9999, 1, 1, tzinfo=datetime.UTC),
            datetime.timedelta(days=9_000 * 365),
            datetime.timedelta.max,
        ):
            with self.subTest(future=future), self.assertRaisesMessage(InvalidTask, "9998"):
                tasks.add.using(run_after=future).enqueue(1)
        self.assertFalse(Job.objects.exists())

    def test_the_last_moment_that_is_kept(self):
        last = datetime.datetime(9998, 12, 31, tzinfo=datetime.UTC)
        result = tasks.add.using(run_after=last).enqueue(1)
        self.assertEqual(drain(), 0)
        self.assertEqual(tasks.add.get_result(result.id).task.run_after, last)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
@pytest.mark.django_db
def test_both_ends_of_the_calendar_without_time_zones(settings, zone):
    settings.USE_TZ, settings.TIME_ZONE = False, zone
    tasks.add.using(run_after=datetime.datetime(1, 1, 1)).enqueue(1)
    tasks.add.using(run_after=datetime.timedelta.min).enqueue(1)
    assert drain() == 2
    for future in (datetime.datetime.max, datetime.timedelta.max):
        with pytest.raises(InvalidTask, match="9998"):
            tasks.add.using(run_after=future).enqueue(1)


def test_a_time_that_names_no_instant_is_refused():
    with pytest.raises(InvalidTask, match="aware"):
        tasks.add.using(run_after=timezone.make_naive(timezone.now()))


NO_IDS = ["", "x", "../..", "%", "\x00", "a\x00b", "\ud800", "\U0001f680", "x" * 100_000, "' OR 1=1 --"]


@pytest.mark.parametrize("text", NO_IDS, ids=range(len(NO_IDS)))
def test_what_is_no_id_is_no_job(text):
    with TinyJobs("memory://", clock=FrozenClock()) as app:
        app.send("a.task")
        assert app.get(text) is None
        assert app.executions(text) == []
        for verb in (app.cancel, app.retry):
            with pytest.raises(JobNotFoundError):
                verb(text)
        with pytest.raises(ConfigurationError, match="cursor"):
            app.list(cursor=text)
        assert app.stats().by_status["queued"] == 1


@pytest.mark.parametrize("text", NO_IDS, ids=range(len(NO_IDS)))
@pytest.mark.django_db
def test_nor_for_django(text):
    tasks.add.enqueue(1)
    with pytest.raises(TaskResultDoesNotExist):
        tasks.add.get_result(text)
    for command in ("show", "cancel", "retry"):
        err = io.StringIO()
        with pytest.raises(CommandError, match=r"no job|left as they were"):
            call_command("tinyjobs", "jobs", command, text, stdout=err, stderr=err)
        err.getvalue().encode()
    with pytest.raises(CommandError, match="cursor"):
        call_command("tinyjobs", "jobs", "list", "--cursor", text, stdout=io.StringIO())
    assert drain() == 1


def test_a_cursor_is_a_text():
    with TinyJobs("memory://", clock=FrozenClock()) as app, pytest.raises(ConfigurationError, match="cursor"):
        app.list(cursor=5)
