"""An interrupt at a chosen point: what Ctrl-C or a raising signal handler does, at every line where it can strike.

Python runs handlers on the main thread between any two instructions. Here it is the trace function that raises, at the
n-th line or call inside the package, so that each point is hit once and none by chance. One kind of line is left out,
the end of a `with` block: there no instruction lets a handler run, and the exit would be skipped.
"""

import dis
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import tinyjobs

PACKAGE = str(Path(tinyjobs.__file__).parent)


class Strike:
    """Calls something and interrupts it at one point. `where` is that point, or None: it came to its end before."""

    def __init__(self, point: int, error: type[BaseException] = KeyboardInterrupt) -> None:
        self._point = self._left = point
        self._error = error
        self.where: str | None = None

    def __call__(self, action: Callable[[], Any]) -> Any:
        """What the action returns; None if it was struck. Raises what else it raises."""
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            return action()
        except self._error:
            if self.where is None:
                raise
            return None
        finally:
            sys.settrace(before)

    def again(self) -> "Strike":
        """Another one at the same point."""
        return Strike(self._point, self._error)

    def _enter(self, frame: FrameType, event: str, arg: object) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        self._count(frame)
        return self._line

    def _line(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "line" and frame.f_lasti not in ends_of_blocks(frame.f_code):
            self._count(frame)
        return self._line

    def _count(self, frame: FrameType) -> None:
        self._left -= 1
        if self._left == 0:
            self.where = f"{frame.f_code.co_filename.removeprefix(PACKAGE)}:{frame.f_lineno}"
            raise self._error


@cache
def ends_of_blocks(code: CodeType) -> frozenset[int]:
    """Where the exit of a `with` block is called that nothing has gone wrong in: `__exit__(None, None, None)`."""
    found = list(dis.get_instructions(code))
    shapes = [(one.opname, one.argval) for one in found]
    leaving = [("LOAD_CONST", None)] * 3 + [("CALL", 2)]
    ends = {at for at in range(len(found)) if shapes[at : at + 4] == leaving}
    # What the block returns is moved out of the way first.
    ends |= {at - 1 for at in ends if at and shapes[at - 1][0] == "SWAP"}
    return frozenset(found[at].offset for at in ends)


def strikes(step: int = 1, error: type[BaseException] = KeyboardInterrupt) -> Iterator[Strike]:
    """A strike for each point in turn, until one has come to the end unhurt; with `step`, for every so-manieth."""
    point = 1
    while True:
        strike = Strike(point, error)
        yield strike
        if strike.where is None:
            return
        point += step
