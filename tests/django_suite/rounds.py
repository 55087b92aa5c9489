"""The rounds of the suite: which of Django's files each one runs, edited how, and under which task backend.

Written against the text of Django's `tests/tasks`; knows nothing of fetching, of environments or of running. A round is
one process, since each needs a package of its own that is called `tasks`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.django_suite.rewriting import Edit, add_import, replace, skip, substitute, wrap_assigned_calls

TASKS = "test_tasks.py"
DUMMY = "test_dummy_backend.py"
IMMEDIATE = "test_immediate_backend.py"
CUSTOM = "test_custom_backend.py"

OURS = "tinyjobs.TinyJobsBackend"
DJANGO_DUMMY = "django.tasks.backends.dummy.DummyBackend"
DJANGO_IMMEDIATE = "django.tasks.backends.immediate.ImmediateBackend"
OUR_DUMMY = "tinyjobs.testing.DummyBackend"
OUR_IMMEDIATE = "tinyjobs.testing.ImmediateBackend"

# How the reason of a skipped test begins. A re-stated one goes on with the names of the tests that stand for it,
# and a round fails unless those were run.
NOT_APPLICABLE = "not applicable: "
RESTATED = "re-stated as "


@dataclass(frozen=True, kw_only=True)
class Round:
    """One process of the suite.

    `declared_on` is the task backend in force while Django's sample tasks are imported: it decides whether they are our
    Task or Django's. `edits` has the test files of Django that run, `restated` our own that run beside them, and
    `running` the one of ours that is copied in as `tasks.running`. `in_file`: other connections see the database.
    `waits_for_commit`: on a store outside of the database, sends are made at the commit, as is the default there. Off
    where the tests look at jobs inside of a transaction.
    """

    name: str
    about: str
    declared_on: str
    edits: Mapping[str, tuple[Edit, ...]]
    restated: tuple[str, ...] = ()
    running: str = "by_drain"
    in_file: bool = False
    waits_for_commit: bool = False


def rounds(series: str) -> tuple[Round, ...]:
    """Every round for a Django series, in the order in which they run."""
    enqueue_side = {TASKS: enqueue_tasks(), DUMMY: enqueue_dummy()}
    return (
        Round(
            name="control",
            about="Django's tests on Django's own backends, which shows that files and runner are sound",
            declared_on=DJANGO_IMMEDIATE,
            edits={TASKS: (), DUMMY: (), IMMEDIATE: (), CUSTOM: ()},
        ),
        Round(
            name="enqueue",
            about="enqueueing through TinyJobsBackend",
            declared_on=OURS,
            edits=enqueue_side,
            restated=("enqueue",),
        ),
        Round(
            name="drain",
            about="what TinyJobsBackend enqueued is drained on the test's connection, then refreshed",
            declared_on=OURS,
            edits={IMMEDIATE: drained()},
            restated=("drain",),
            waits_for_commit=True,
        ),
        Round(
            name="worker",
            about="what TinyJobsBackend enqueued is run by a worker, then refreshed",
            declared_on=OURS,
            edits={IMMEDIATE: worked_off()},
            restated=("worker",),
            running="by_worker",
            in_file=True,
            waits_for_commit=True,
        ),
        Round(
            name="foreign",
            about="tasks declared on another backend, so that plain Django tasks arrive, are enqueued and drained",
            declared_on=DJANGO_IMMEDIATE,
            edits={**enqueue_side, IMMEDIATE: drained()},
            restated=("enqueue", "drain"),
        ),
        Round(
            name="stand-ins",
            about="the immediate and dummy backends of tinyjobs.testing, with nothing but the path changed",
            declared_on=OUR_IMMEDIATE,
            edits={
                TASKS: (swap(DJANGO_DUMMY, OUR_DUMMY, 1), swap(DJANGO_IMMEDIATE, OUR_IMMEDIATE, 1)),
                DUMMY: (swap(DJANGO_DUMMY, OUR_DUMMY, 4),),
                IMMEDIATE: (swap(DJANGO_IMMEDIATE, OUR_IMMEDIATE, 4),),
            },
        ),
        Round(
            name="custom",
            about="a backend derived from TinyJobsBackend, and its task class with options of its own",
            declared_on=OURS,
            edits={CUSTOM: custom_backend(has_task_class=series != "6.0")},
            restated=("task_class",),
        ),
    )


def swap(old: str, new: str, times: int) -> Edit:
    """Another task backend in the settings."""
    return replace(f'"BACKEND": "{old}"', f'"BACKEND": "{new}"', times=times)


def in_the_database(classes: int, test_case: str = "TestCase") -> tuple[Edit, ...]:
    """What every file needs to run on a backend that writes to the database."""
    return (
        add_import("import unittest"),
        add_import(f"from django.test import {test_case}"),
        add_import("from tinyjobs import TinyJobsBackend"),
        replace("(SimpleTestCase)", f"({test_case})", times=classes),
    )


def is_ours(name: str, times: int) -> Edit:
    """The class that the backend is checked to be."""
    return substitute(rf"(assertIsInstance\(.*), {name}\)", r"\1, TinyJobsBackend)", times=times)


def the_store_has(scope: str, old: str, times: int = 1, *, is_async: bool = False) -> Edit:
    """A look into the dummy's list of results becomes a question to the store."""
    get = "await default_task_backend.aget_result" if is_async else "default_task_backend.get_result"
    return replace(old, f"self.assertEqual({get}(result.id), result)", times=times, inside=scope)


def available_apps() -> Edit:
    """The test case hides other apps: from the rule whose tasks may be sent, and from emptying tables at its end."""
    return replace("available_apps = []", 'available_apps = ["tinyjobs", "tasks"]', times=1)


def enqueue_tasks() -> tuple[Edit, ...]:
    in_results = "self.assertEqual(default_task_backend.results, [result])"
    return (
        *in_the_database(classes=1),
        swap(DJANGO_DUMMY, OURS, 1),
        is_ours("DummyBackend", 2),
        replace("default_task_backend.clear()", "pass", times=1, inside="TaskTestCase.setUp"),
        the_store_has("TaskTestCase.test_enqueue_task", in_results),
        the_store_has("TaskTestCase.test_enqueue_task_async", in_results, is_async=True),
        # It refreshes synchronously inside `async def`, where Django refuses every query.
        skip("TaskTestCase.test_refresh_result", RESTATED + "test_refresh_a_new_result, test_arefresh_a_new_result"),
    )


def enqueue_dummy() -> tuple[Edit, ...]:
    case = "DummyBackendTestCase"
    at_commit = "DummyBackendTransactionTestCase.test_doesnt_wait_until_transaction_commit_by_default"
    in_results = "self.assertIn(result, default_task_backend.results)"
    # The dummy's result is changed behind its back; a stored one changes when its job runs.
    changed = (
        r"enqueued_result = default_task_backend\.results\[0\]\n"
        r" +object\.__setattr__\(enqueued_result, \"status\", TaskResultStatus\.SUCCESSFUL\)"
    )
    return (
        *in_the_database(classes=1),
        add_import("from tinyjobs.testing import adrain, drain"),
        swap(DJANGO_DUMMY, OURS, 4),
        is_ours("DummyBackend", 1),
        replace("default_task_backend.clear()", "pass", times=1, inside=f"{case}.setUp"),
        the_store_has(f"{case}.test_enqueue_task", in_results),
        the_store_has(f"{case}.test_enqueue_task_async", in_results, is_async=True),
        skip(f"{case}.test_clear", NOT_APPLICABLE + "a backend over a store has no clear()"),
        substitute(changed, "drain()", times=1, inside=f"{case}.test_refresh_result"),
        substitute(changed, "await adrain()", times=1, inside=f"{case}.test_refresh_result_async"),
        available_apps(),
        the_store_has(at_commit, "self.assertEqual(len(default_task_backend.results), 1)", 2),
    )


def run_later() -> tuple[Edit, ...]:
    """The immediate backend's tests, with a run after the enqueueing in the place of the one inside it."""
    case = "ImmediateBackendTestCase"
    return (
        add_import("from tasks.running import aran, ran"),
        swap(DJANGO_IMMEDIATE, OURS, 4),
        is_ours("ImmediateBackend", 1),
        wrap_assigned_calls("result", "enqueue", "ran", times=11),
        wrap_assigned_calls("result", "aenqueue", "aran", times=3),
        skip(f"{case}.test_cannot_get_result", NOT_APPLICABLE + "results can be retrieved"),
        skip(f"{case}.test_cannot_refresh_result", NOT_APPLICABLE + "results can be refreshed"),
        skip(f"{case}.test_cannot_pass_run_after", NOT_APPLICABLE + "run_after is supported"),
        available_apps(),
    )


def drained() -> tuple[Edit, ...]:
    return (
        *in_the_database(classes=1),
        *run_later(),
        skip(
            "ImmediateBackendTestCase.test_throws_keyboard_interrupt",
            RESTATED + "test_eager_mode_throws_keyboard_interrupt, test_drain_throws_keyboard_interrupt",
        ),
    )


def worked_off() -> tuple[Edit, ...]:
    at_commit = "ImmediateBackendTransactionTestCase.test_doesnt_wait_until_transaction_commit_by_default"
    return (
        *in_the_database(classes=1, test_case="TransactionTestCase"),
        *run_later(),
        skip(
            "ImmediateBackendTestCase.test_throws_keyboard_interrupt",
            RESTATED + "test_worker_outlives_a_keyboard_interrupt_of_the_task",
        ),
        skip(at_commit, NOT_APPLICABLE + "a worker sees a job once it is committed; see the rounds enqueue and drain"),
    )


def custom_backend(*, has_task_class: bool) -> tuple[Edit, ...]:
    """Django's example of a derived backend derives from ours, its example of a task class becomes ours (6.1)."""
    case = "CustomBackendTestCase"
    edits = (
        *in_the_database(classes=2 if has_task_class else 1),
        replace("class CustomBackend(BaseTaskBackend):", "class CustomBackend(TinyJobsBackend):", times=1),
        skip(f"{case}.test_backend_does_not_support_priority", NOT_APPLICABLE + "priorities are supported"),
        skip(f"{case}.test_no_enqueue", NOT_APPLICABLE + "enqueue() is not abstract"),
    )
    if not has_task_class:
        return edits
    own_class = r'f"\{CustomTaskBackend\.__module__\}\."\n +f"\{CustomTaskBackend\.__qualname__\}"'
    return (
        *edits,
        substitute(own_class, f'"{OURS}"', times=1),
        replace(
            "assertIsInstance(my_task, CustomTask)", "assertIsInstance(my_task, TinyJobsBackend.task_class)", times=3
        ),
        add_import("from tasks.test_restated_task_class import DEFAULTS"),
        replace("my_task.foo, 3)", 'my_task.max_attempts, DEFAULTS["max_attempts"])', times=1),
        replace("my_task.bar, 300)", 'my_task.timeout, DEFAULTS["timeout"])', times=1),
        substitute(r"(\(|, |\.)foo\b", r"\1max_attempts", times=4),
        substitute(r"(\(|, |\.)bar\b", r"\1timeout", times=4),
    )
