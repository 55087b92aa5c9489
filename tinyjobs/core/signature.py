"""Whether the arguments of an enqueue fit the task's function, told where the mistake is made."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class CallCheck:
    """The check for one function. Its signature is read once; a plain positional call costs two comparisons.

    `in_front` is how many positional arguments the function gets before those of the enqueue, from whoever runs it.
    """

    __slots__ = ("_fewest", "_in_front", "_most", "_name", "_signature")

    def __init__(self, name: str, function: Callable[..., Any], *, in_front: int = 0) -> None:
        self._name = name
        self._in_front = (None,) * in_front
        self._signature = _signature_of(function)
        parameters = list(self._signature.parameters.values())
        required = [parameter for parameter in parameters if parameter.default is parameter.empty]
        kinds = [parameter.kind for parameter in parameters]
        self._fewest: float = sum(parameter.kind in _POSITIONAL for parameter in required) - in_front
        self._most: float = sum(kind in _POSITIONAL for kind in kinds) - in_front
        if inspect.Parameter.VAR_POSITIONAL in kinds:
            self._most = math.inf
        if any(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in required):
            self._fewest = math.inf  # no call without keywords can fit

    def __call__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise `TypeError`, naming the task, when the function could not be called like this."""
        if not kwargs and self._fewest <= len(args) <= self._most:
            return
        try:
            self._signature.bind(*self._in_front, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"the task {self._name} cannot be called like this: {error}") from None


def _signature_of(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        # Some callables written in C do not tell theirs; they complain when they run.
        everything = [
            inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
            inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
        ]
        return inspect.Signature(everything)
