"""How a command finds a store that is named in full on the command line, in place of a target."""

from collections.abc import Callable, Mapping
from typing import Any

from tinyjobs.core.errors import ConfigurationError
from tinyjobs.core.url import shown_url

#: From what stands on the command line to the store's URL and its options. Raises `ConfigurationError`.
type FindStore = Callable[[str], tuple[str, Mapping[str, Any]]]


def url_alone(text: str) -> tuple[str, Mapping[str, Any]]:
    """The store of a program without Django, which has no other names for it than its URL."""
    if "://" not in text:
        raise ConfigurationError(f"{shown_url(text)!r} is no store URL. Write for example sqlite:///scratch.db.")
    return text, {}
