"""What every store promises, as tests. `BackendContract` is the whole of it; see `tinyjobs.testing` for binding it.

The suite speaks to a store through the `Backend` protocol alone. It knows no store, no driver and no runtime.
"""

from tinyjobs.testing.contract.claiming import ClaimOrder, Claims
from tinyjobs.testing.contract.control import Control, Deleting
from tinyjobs.testing.contract.counting import Counts
from tinyjobs.testing.contract.expiring import Expiring
from tinyjobs.testing.contract.figures import Figures
from tinyjobs.testing.contract.groups import Groups
from tinyjobs.testing.contract.keys import Keys
from tinyjobs.testing.contract.leases import Leases
from tinyjobs.testing.contract.listing import Listing
from tinyjobs.testing.contract.producing import Producing
from tinyjobs.testing.contract.recording import Fencing, Recording
from tinyjobs.testing.contract.retention import ResultLives, Retention
from tinyjobs.testing.contract.schedules import Schedules
from tinyjobs.testing.contract.values import Values
from tinyjobs.testing.contract.waking import Waking
from tinyjobs.testing.contract.watching import Tallies, Workers

__all__ = ["BackendContract"]


class BackendContract(
    Claims,
    ClaimOrder,
    Leases,
    Recording,
    Fencing,
    Groups,
    Producing,
    Keys,
    Control,
    Deleting,
    Listing,
    Figures,
    Schedules,
    Expiring,
    Retention,
    ResultLives,
    Values,
    Waking,
    Workers,
    Tallies,
    Counts,
):
    """Mix it into an `IsolatedAsyncioTestCase` and write `make_backend` and `another_client`."""
