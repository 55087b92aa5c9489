"""What a report says, and what it does not, on values made by hand."""

import pytest

from tinyjobs.operations.verify.faults.ordeal import Ordeal
from tinyjobs.operations.verify.fleet import Ends
from tinyjobs.operations.verify.reckoning import Reckoning
from tinyjobs.operations.verify.report import Report
from tinyjobs.operations.verify.sending import Sent

ONCE = "every job applied its side effect once"


def report(**changes):
    given = {"where": "sqlite:///x.db", "queue": "q", "settings": {}, "sent": Sent(), "ends": Ends()}
    return Report(**given | changes)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (Reckoning(), ONCE),
        (Reckoning(missing={1, 2}), "2 never applied their side effect"),
        (Reckoning(phantoms={9}), "1 side effect of what was never sent"),
        (
            Reckoning(missing={1}, phantoms={8, 9}),
            "1 never applied its side effect, 2 side effects of what was never sent",
        ),
    ],
)
def test_side_effects_are_said_to_be_as_they_should_only_if_they_are(found, told):
    line = next(line for line in report(reckoning=found).lines() if "ran more than once" in line)
    assert line == f"0 jobs ran more than once, after the stops; {told}"


def test_the_end_of_the_log_is_there_for_programs_once_a_worker_died():
    died = Ends(unexpected=1, problems=("a worker ended by itself, with the status 1",))
    assert report(ends=died, log_tail="no such table").document()["log_tail"] == "no such table"
    assert report(log_tail="all is well").document()["log_tail"] == ""


def test_the_end_of_the_log_is_there_for_programs_once_a_worker_died_of_a_fault():
    ordeal = Ordeal(store="redis", problems=["a worker ended by itself, with the status 1"], log_tail="no such table")
    assert ordeal.document()["log_tail"] == "no such table"
    assert Ordeal(store="redis").document()["log_tail"] == ""
