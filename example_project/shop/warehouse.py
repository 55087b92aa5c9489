"""A stand-in for the warehouse's computer, which is never there when it is first called."""

from pathlib import Path

#: It answers at this try and not before.
ANSWERS_AT = 3


class WarehouseUnavailable(Exception):
    """Nobody answers. Worth another try."""


def deliver(text: str, target: Path, *, number_of_try: int) -> None:
    """Hand over a list, or raise. Handing over the same list twice leaves one."""
    if number_of_try < ANSWERS_AT:
        raise WarehouseUnavailable(f"the warehouse does not answer (try {number_of_try})")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, "utf-8")
