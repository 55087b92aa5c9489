"""A store's URL as people may see it: in a banner, a log line or an error."""

import re
from urllib.parse import unquote

_SECRET = re.compile(r"pass|pwd|secret|token", re.IGNORECASE)


def shown_url(url: str) -> str:
    """The URL without the password. By its looks: one that cannot be taken apart may hold a password all the same."""
    scheme, mark, rest = url.rpartition("://") if url.count("://") == 1 else ("", "", url)
    address, question, query = rest.partition("?")
    if "@" in query:
        if any(_SECRET.search(unquote(part.partition("=")[0])) for part in query.split("&")):
            # Either may hold the password, and no telling where it ends.
            return scheme + mark + "***"
        # The question mark stands in the password.
        address, question, query = rest, "", ""
    address = re.sub(r"^([^:]*:).*@", r"\1***@", address, flags=re.DOTALL)
    if not mark:
        address = re.sub(r"((?:pass|pwd)\w*\s*=\s*)('[^']*'?|\S+)", r"\1***", address, flags=re.IGNORECASE)
    return scheme + mark + address + question + "&".join(_shown_parameters(query))


def _shown_parameters(query: str) -> list[str]:
    shown: list[str] = []
    is_secret = False
    for part in query.split("&"):
        name, equals, _ = part.partition("=")
        # What follows a secret and names nothing is the rest of it.
        is_secret = bool(_SECRET.search(unquote(name))) if equals else is_secret
        shown.append(part if not is_secret else f"{name}=***" if equals else "***")
    return shown
