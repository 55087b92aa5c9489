"""Sentences from below Django: each template is known to the dashboard, and the pages say them in their language."""

import ast
import inspect
import json
import random
import re
from dataclasses import replace
from functools import cache

import pytest
from django.utils.html import escape
from django.utils.translation import override

from tests.core.reference import random_expression
from tests.core.test_cron_words import simple_expressions
from tests.dashboard.conftest import text_of
from tests.dashboard.test_schedules import ADD, backend
from tests.dashboard.test_translations import LANGUAGES
from tests.operations.test_check import Catalogue
from tinyjobs.backends.postgres import audit as postgres
from tinyjobs.backends.redis import audit as redis
from tinyjobs.backends.sqlite import audit as sqlite
from tinyjobs.core import cron
from tinyjobs.core import schedules as rules
from tinyjobs.core.cron import Cron
from tinyjobs.core.cron_words import MONTHS, WEEKDAYS, describe
from tinyjobs.core.job import QueueStats, ScheduleState, Stats
from tinyjobs.core.sentences import Sentence, say
from tinyjobs.core.watching import WorkerSeen
from tinyjobs.dashboard import actions, deadlines, phrases
from tinyjobs.dashboard.pages import values
from tinyjobs.operations import check, presence
from tinyjobs.runtime import schedules
from tinyjobs.taskbackend import checking, timetable

# Words of the English sentences that no German one has.
_ENGLISH = re.compile(
    r"\b(every|at|of|from|to|on|the|and|or|if|it|is|hours?|minutes|day|month|\d+(st|nd|rd|th)|\w+day|January|March|May)\b"
)


@cache
def sentences():
    """Many expressions in words."""
    rng = random.Random("translations")
    made = [*simple_expressions(), *(random_expression(rng, near=3).text for _ in range(3_000))]
    extra = ["5 1,3 * * 1", "1,2,3,5,8,9,11 2 * * *", "*/5 */3 * * *", "1-59/2 1-23/2 * * *", "0 3 2,3,23,30 * *"]
    return [describe(Cron.parse(text)) for text in [*made, *extra]]


def templates(text):
    """Those in a sentence that have words of their own."""
    if not isinstance(text, Sentence):
        return set()
    own = {text.template} if re.sub(r"%\(\w+\)s", "", text.template).strip(" ,:.;") else set()
    return own.union(*map(templates, text.values.values()))


def test_every_phrase_of_a_cron_expression_is_known_and_none_is_left_over():
    used = set().union(*map(templates, sentences())) - {*MONTHS, *WEEKDAYS}
    assert used == phrases.CRON


_PLACES = {template for pair in sqlite._ON_A.values() for template in pair}


@pytest.mark.parametrize(
    ("modules", "known"),
    [
        ((check, presence), phrases.CHECK),
        ((sqlite, postgres, redis), phrases.AUDITS - _PLACES),
        ((checking,), phrases.PROJECT),
        ((actions, deadlines, values), phrases.PAGES),
        ((schedules,), phrases.SCHEDULES),
        ((cron, rules, timetable), phrases.RULES),
    ],
    ids=["check", "audits", "project", "pages", "schedules", "rules"],
)
def test_every_template_is_known_and_none_is_left_over(modules, known):
    said = [
        node.args[0]
        for module in modules
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "say"
        if isinstance(node.args[0], ast.Constant)
    ]
    assert set().union(*(templates(Sentence("", template.value, {})) for template in said)) == known


def test_templates_of_a_table_are_known():
    assert _PLACES <= phrases.AUDITS


def test_findings_are_told_whole():
    """No text of a finding is put together in another way, so nothing stays English beside a sentence."""
    for finding in findings_of_a_bad_day():
        assert isinstance(finding.message, Sentence) and finding.message.template, finding
        assert not finding.remedy or finding.remedy.template, finding
        with override("de"):
            told = f"{phrases.translated(finding.message)} {phrases.translated(finding.remedy)}"
        assert not _ENGLISH.search(told), told
        with override("en"):
            assert phrases.translated(finding.message) == finding.message
        json.dumps(check.as_json(finding))


def findings_of_a_bad_day():
    """What a check says where all is wrong, and where nothing is."""
    catalogue, now = Catalogue(), 10_000.0
    queues = [QueueStats(name=f"q{number}", ready=1, oldest_due=now - 500) for number in range(8)]
    stats = Stats(now=now, by_status={}, queues=queues, queued_by_task={"shop.gone": 3}, expired_leases=2)
    stopped = ScheduleState(name="gone", cron="@daily", timezone="UTC", next_run_at=now - 400, error="no more instants")
    seen = [
        worker("w-1", now - 100, ("q1",)),
        worker("w-2", now - 1_000, ("q2",)),
        worker("w-3", now, ("q3",), scheduled_at=now - 300),
    ]
    for workers in (seen, seen[:2], seen[2:], []):
        for states in ([stopped], [stopped, replace(stopped, name="other")], [replace(stopped, next_run_at=now + 9)]):
            looked = check.Seen(stats=stats, schedules=states, workers=workers)
            yield from check.judged(looked, catalogue, None, 5.0, store_warnings=False)
    calm = Stats(now=now, by_status={}, queues=[], queued_by_task={}, expired_leases=0)
    for workers in (seen[2:], []):
        yield from check.judged(
            check.Seen(stats=calm, workers=workers), Catalogue("send"), None, None, store_warnings=False
        )


def worker(name, seen_at, queues, scheduled_at=None):
    return WorkerSeen(
        worker_id=name,
        host="h",
        pid=1,
        version="1",
        started_at=1.0,
        seen_at=seen_at,
        queues=queues,
        threads=1,
        scheduled_at=scheduled_at,
    )


def test_in_english_nothing_changes():
    with override("en"):
        assert all(phrases.translated(sentence) == sentence for sentence in sentences())


def test_a_language_without_translations_is_not_mixed_with_english():
    with override("nl"):
        assert all(phrases.translated(sentence) == sentence for sentence in sentences())


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_two_sentences_become_one(language):
    with override(language):
        told = {sentence: phrases.translated(sentence) for sentence in sentences()}
    assert len(set(told.values())) == len(told) > 1_000


def test_no_english_word_is_left_in_german():
    with override("de"):
        left = {phrases.translated(sentence) for sentence in sentences()}
    assert [text for text in left if _ENGLISH.search(text)] == []


@pytest.mark.parametrize(
    ("language", "cron", "told"),
    [
        ("de", "30 2 * * 1-5", "um 02:30 von Montag bis Freitag"),
        ("de", "0 0 1,15 1,7 *", "um 00:00 am 1. und 15. Januar und Juli"),
        ("de", "1-59/2 * * * *", "in jeder 2. Minute von 1 bis 59 jeder Stunde"),
        ("fr", "0 0 1 * 0", "à 00:00 le 1 et chaque dimanche"),
        ("es", "*/15 8-16 * * 1-5", "cada 15 minutos de 08:00 a 16:45 de lunes a viernes"),
        ("it", "0 9 * 3-5 sat,sun", "alle 09:00 ogni sabato e domenica da marzo a maggio"),
        ("pt", "0 3 * 1 *", "às 03:00 todos os dias em janeiro"),
    ],
)
def test_cron_in_words(language, cron, told):
    with override(language):
        assert phrases.translated(describe(Cron.parse(cron))) == told


def test_what_is_in_a_sentence_is_not_translated_unless_it_is_one():
    with override("de"):
        assert phrases.translated(say("at %(times)s", times="every day")) == "um every day"
        assert phrases.translated("every day") == "every day"
        assert phrases.translated(say("100 %% of %(names)s", names="Monday")) == "100 % of Monday"


@pytest.mark.django_db
def test_the_schedules_page_in_german(admin, settings):
    backend().save_schedule("nightly", task=ADD, cron="30 2 1,15 * *", args=[1, 2], timezone="UTC")
    settings.LANGUAGE_CODE = "de"
    with override("de"):
        for page in ("schedule/", "schedule/nightly/change/"):
            text = text_of(admin, f"/admin/tinyjobs/{page}")
            assert "um 02:30 am 1. und 15. jedes Monats" in text and "of every month" not in text
        answer = admin.get("/admin/tinyjobs/api/schedules/nightly/").json()
    assert answer["words"] == "at 02:30 on the 1st and 15th of every month"


@pytest.mark.django_db
def test_the_overview_in_german(admin, settings):
    settings.LANGUAGE_CODE = "de"
    with override("de"):
        text = text_of(admin, "/admin/tinyjobs/")
        answer = admin.get("/admin/tinyjobs/api/overview/").json()
    assert "Kein laufender Auftrag hat seine Vergabe überschritten." in text
    for finding in answer["findings"]:
        assert escape(finding["message"]) not in text
    assert "No running job is past its lease." in {finding["message"] for finding in answer["findings"]}
