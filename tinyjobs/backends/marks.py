"""The marks of a store's layout: whose it is, which version, and who may work on it. Written by every store's setup.

`layout` is our own mark: an older public package of the same name uses the same names with another layout.
`schema_version` is the version of the layout, and `compatible_since` the oldest version whose code works on the store
as it is. `instance` is different in every store. How a store keeps them is not known here.
"""

import secrets
from collections.abc import Mapping

from tinyjobs.core.errors import ConfigurationError, NewerStoreError

LAYOUT = "tinyjobs-django"
SCHEMA_VERSION = 1
COMPATIBLE_SINCE = 1


def new_marks() -> list[tuple[str, str]]:
    """What is written into a new store."""
    return [
        ("layout", LAYOUT),
        ("schema_version", str(SCHEMA_VERSION)),
        ("compatible_since", str(COMPATIBLE_SINCE)),
        ("instance", secrets.token_hex(16)),
    ]


def is_ours(marks: Mapping[str, str]) -> bool:
    """Whether this package laid the store out."""
    return marks.get("layout") == LAYOUT


def check_version(marks: Mapping[str, str], where: str) -> int:
    """The version of the layout, if this release can work on it; else raises `NewerStoreError`."""
    version = _number(marks, "schema_version", where)
    compatible = _number(marks, "compatible_since", where) if "compatible_since" in marks else version
    if version > SCHEMA_VERSION and compatible > SCHEMA_VERSION:
        raise NewerStoreError(
            f"{where} was laid out by a newer tinyjobs (version {version} of the layout, which needs at least "
            f"{compatible}); this release knows {SCHEMA_VERSION}. Upgrade the package in this process."
        )
    return version


def _number(marks: Mapping[str, str], name: str, where: str) -> int:
    value = marks.get(name, "")
    if not value.isdecimal():
        raise ConfigurationError(
            f"{where}: {name} in the meta table is {value!r}, not a number. Was it changed by hand?"
        )
    return int(value)
