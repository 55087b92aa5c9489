"""The decorator of records that are made in great numbers.

A frozen dataclass of twenty fields takes ten times as long to make as a plain one, since each field goes through
`object.__setattr__`. A record is frozen for the type checker, which is where a mistake would be made, and plain at
run time. Use it for what is made for every job; everything else is an ordinary frozen dataclass.
"""

from dataclasses import dataclass
from typing import dataclass_transform


@dataclass_transform(frozen_default=True, kw_only_default=True)
def record[T](cls: type[T]) -> type[T]:
    """Make a keyword-only, slotted, hashable dataclass that must not be changed after it was made."""
    return dataclass(slots=True, kw_only=True, unsafe_hash=True)(cls)
