"""The contract fails a real store that lacks what a guarantee stands on; the same store without a fault passes.

That simulated worlds find these variants too is in `tests/simulation`, that the models do in `tests/models`. What
`verify` says of such stores is in `tests/verify/test_variants.py`.
"""

import unittest
from typing import ClassVar

import pytest

from tests.contract import test_sqlite
from tests.teeth.variants import VARIANTS, Variant
from tinyjobs.backends.base import Backend
from tinyjobs.core.clock import Clock

NAMES = sorted({name for variant in VARIANTS for name in variant.found_by})


def verdict(variant: type[Variant], name: str) -> unittest.TestResult:
    """What becomes of one test of the contract on that store, in a file."""

    class Bound(test_sqlite.SQLiteFileTests):
        # A race that has to be lost once in a while is run a few times more.
        rounds: ClassVar[int] = 12

        def open(self, clock: Clock) -> Backend:
            return variant(str(self.path), clock=clock)

    result = unittest.TestResult()
    Bound(name).run(result)
    assert result.testsRun == 1
    assert not result.skipped
    return result


@pytest.mark.parametrize(
    ("variant", "name"), [(variant, name) for variant in VARIANTS for name in variant.found_by], ids=str
)
def test_the_contract_finds_what_is_missing(variant, name):
    result = verdict(variant, name)
    assert result.failures or result.errors, f"{name} did not see that the store {variant.__name__}"


@pytest.mark.parametrize("name", NAMES)
def test_with_nothing_missing_the_same_store_passes(name):
    result = verdict(Variant, name)
    assert not result.failures and not result.errors, result
