"""The contract finds what it is for: a store with one fault fails the tests that name it."""

import unittest

import pytest

from tests.contract import faults, watching_faults
from tests.contract.faults import Faulty
from tests.contract.loops import AsyncCase
from tinyjobs.backends.base import Backend
from tinyjobs.core.clock import Clock
from tinyjobs.testing import BackendContract


def bound_to(store: type[Faulty]) -> type[AsyncCase]:
    class FaultyStoreTests(BackendContract, AsyncCase):
        async def make_backend(self, clock: Clock) -> Backend:
            return store(clock=clock)  # type: ignore[no-any-return]

        async def another_client(self, backend: Backend, clock: Clock) -> Backend:
            return store(backend.data, clock=clock)  # type: ignore[attr-defined, no-any-return]

    return FaultyStoreTests


@pytest.mark.parametrize("fault", [*faults.FAULTS, *watching_faults.FAULTS], ids=lambda fault: fault.__name__)
def test_a_fault_is_found(fault):
    case = bound_to(fault)
    assert fault.found_by
    for name in fault.found_by:
        result = unittest.TestResult()
        case(name).run(result)
        assert result.testsRun == 1
        assert result.failures or result.errors, f"{name} did not see that the store {fault.__name__}"
        assert not result.skipped
