"""Links of either kind on a URL, as the tests of the connections use them."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from tinyjobs.backends.redis.looplink import LoopLink
from tinyjobs.backends.redis.options import parse_url
from tinyjobs.backends.redis.source import Source
from tinyjobs.backends.redis.threadlink import ThreadLink
from tinyjobs.core.clock import SystemClock
from tinyjobs.core.inline import finish
from tinyjobs.core.url import shown_url

KINDS = {"threads": ThreadLink, "loop": LoopLink}


def make_source(url, clock=None, **options):
    address, parsed = parse_url(url, options)
    return Source(address=lambda: address, options=parsed, where=shown_url(url), clock=clock or SystemClock())


class OnALoop:
    """A link of the loop's kind with a loop to itself, to be called from a test that has none."""

    def __init__(self, source):
        self.runner = asyncio.Runner()
        self.link = LoopLink(source)


@contextmanager
def link_to(kind, url, **options) -> Iterator[ThreadLink | OnALoop]:
    """A link for calls one after another, closed at the end. See `answer`."""
    source = make_source(url, **options)
    if kind == "threads":
        link = ThreadLink(source)
        yield link
        finish(link.close())
        return
    with (on := OnALoop(source)).runner:
        yield on
        on.runner.run(on.link.close())


def answer(link, *words, script=None):
    """What the link answers to a command, or to the script with its key and arguments."""
    on = link.link if isinstance(link, OnALoop) else link
    call = on.command(*words) if script is None else on.run(script, words[:1], words[1:])
    return link.runner.run(call) if isinstance(link, OnALoop) else finish(call)
