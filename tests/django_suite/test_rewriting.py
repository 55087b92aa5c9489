"""The suite's own workings, offline: edits insist on their matches, and a round that shrank is not a success.

Whether the edits fit Django's files is what `run.py` finds out; here they meet a text of the same shape.
"""

import ast

import pytest

from tests.django_suite.outcome import judge
from tests.django_suite.releases import RELEASES, Release
from tests.django_suite.rewriting import (
    PatchDoesNotApply,
    add_import,
    apply,
    replace,
    skip,
    substitute,
    wrap_assigned_calls,
)
from tests.django_suite.rounds import RESTATED, rounds

SOURCE = """\
import logging
from os import (
    path,
)


class One:
    def test_a(self):
        result = größe("ß").enqueue(1, two=3)
        assert result

    @decorated
    async def test_b(self):
        result = await backend.aenqueue(
            name, [], {}
        )
        other = backend.enqueue(1)
        task.enqueue(2)


class Two:
    def test_a(self):
        result = größe.enqueue()
"""


def test_replace_counts_its_matches():
    assert replace("enqueue", "send", times=5)(SOURCE).count("send") == 5
    with pytest.raises(PatchDoesNotApply, match=r"replace 'enqueue': found 5 times, expected 4"):
        replace("enqueue", "send", times=4)(SOURCE)
    with pytest.raises(PatchDoesNotApply, match="found 0 times"):
        replace("dequeue", "send", times=1)(SOURCE)


def test_replace_inside_a_test_leaves_the_others_alone():
    changed = replace("result", "answer", times=1, inside="Two.test_a")(SOURCE)

    assert changed == SOURCE.replace("        result = größe.enqueue()", "        answer = größe.enqueue()")


def test_a_test_that_is_gone_is_named():
    for edit in (skip("Two.test_b", "why"), replace("a", "b", times=1, inside="Two.test_b")):
        with pytest.raises(PatchDoesNotApply, match=r"there is no Two\.test_b"):
            edit(SOURCE)


def test_the_failing_file_is_named():
    with pytest.raises(PatchDoesNotApply, match=r"^test_tasks\.py: replace 'gone'"):
        apply([replace("gone", "", times=1)], SOURCE, "test_tasks.py")


def test_what_is_left_must_be_python():
    with pytest.raises(PatchDoesNotApply, match="not Python"):
        replace("assert result", "assert (result", times=1)(SOURCE)


def test_replacement_text_is_taken_literally():
    assert r"\1 \g<0>" in replace('"ß"', r'r"\1 \g<0>"', times=1)(SOURCE)


def test_substitute_can_use_groups():
    assert "größe.send(3)" in substitute(r"größe\.(\w+)\(\)", r"größe.send(3)", times=1)(SOURCE)
    assert "backend.queue(1)" in substitute(r"backend\.en(\w+)\(1\)", r"backend.\1(1)", times=1)(SOURCE)


def test_skip_stands_above_the_decorators():
    changed = skip("One.test_b", "not ours: it's Django's")(SOURCE)

    function = ast.parse(changed).body[2].body[1]
    assert [ast.unparse(decorator) for decorator in function.decorator_list] == [
        """unittest.skip("not ours: it's Django's")""",
        "decorated",
    ]


def test_add_import_goes_below_an_import_of_several_lines():
    changed = add_import("import unittest")(SOURCE)

    assert changed.startswith("import logging\nfrom os import (\n    path,\n)\nimport unittest\n\n\nclass One:")


def test_only_calls_assigned_to_the_name_are_wrapped():
    changed = wrap_assigned_calls("result", "enqueue", "ran", times=2)(SOURCE)
    changed = wrap_assigned_calls("result", "aenqueue", "aran", times=1)(changed)

    assert 'result = ran(größe("ß").enqueue(1, two=3))\n' in changed
    assert "result = await aran(await backend.aenqueue(\n            name, [], {}\n        ))\n" in changed
    assert "other = backend.enqueue(1)\n        task.enqueue(2)\n" in changed
    assert "result = ran(größe.enqueue())\n" in changed
    with pytest.raises(PatchDoesNotApply, match="found 2 times, expected 3"):
        wrap_assigned_calls("result", "enqueue", "ran", times=3)(SOURCE)


def test_every_round_has_a_number_of_tests_to_run():
    for series, release in RELEASES.items():
        assert {round_.name for round_ in rounds(series)} == set(release.expected)


RELEASE = Release(series="6.1", version="6.1.3", sha256="", expected={"enqueue": 2})


def seen(**changes):
    return {
        "django": "6.1.3",
        "started": ["t.A.a", "t.A.b", "t.A.c"],
        "failed": [],
        "skipped": {"t.A.c": "why"},
        **changes,
    }


def test_a_round_as_expected_has_no_complaint():
    outcome = judge(RELEASE, "enqueue", seen(), None)

    assert outcome.passed == {"t.A.a", "t.A.b"}
    assert outcome.complaints == ()


@pytest.mark.parametrize(
    ("answer", "trouble", "complaint"),
    [
        (seen(started=["t.A.a", "t.A.c"]), None, "1 tests ran, releases.py expects 2"),
        (seen(started=["t.A.a", "t.A.b", "t.A.c", "t.A.new"]), None, "3 tests ran, releases.py expects 2"),
        (seen(failed=["t.A.a"]), None, "failed: t.A.a"),
        (seen(django="6.1.4"), None, "it ran on Django 6.1.4, not on 6.1.3"),
        (seen(skipped={"t.A.c": RESTATED + "b, d"}), None, "t.A.c is said to be re-stated as d, which did not run"),
        (seen(), "its process ended with status 1", "its process ended with status 1"),
        (None, None, "0 tests ran, releases.py expects 2"),
    ],
)
def test_anything_else_is_complained_about(answer, trouble, complaint):
    assert judge(RELEASE, "enqueue", answer, trouble).complaints == (complaint,)
