"""One clock, injected: what reads the time, sleeps or draws a number by itself cannot be held still by a test."""

import ast
import re
from collections.abc import Iterator

from tests.house.source import Source, modules

CLOCK = "tinyjobs/core/clock.py"
# What waits for another process to finish a write waits for the machine: no clock of ours would move that along.
WAITS_FOR_THE_MACHINE = {"tinyjobs/backends/sqlite/backend.py calls asyncio.sleep"}
UNCONTROLLED = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
    "timezone": {"now", "localtime"},
    "random": {"random", "uniform", "randint", "randrange", "choice", "choices", "shuffle", "expovariate", "gauss"},
    "asyncio": {"sleep"},
}


def uncontrolled(module: Source) -> Iterator[str]:
    for node in ast.walk(module.tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name), args=arguments):
                yields_to_the_loop = name == "sleep" and [ast.unparse(argument) for argument in arguments] == ["0"]
                if name in UNCONTROLLED.get(owner, ()) and not yields_to_the_loop:
                    yield f"{module.place}:{node.lineno} calls {owner}.{name}"
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr=("datetime" | "date") as owner), attr=name)):
                if name in UNCONTROLLED.get(owner, ()):
                    yield f"{module.place}:{node.lineno} calls {owner}.{name}"
            case ast.ImportFrom(module=("time" | "random" | "asyncio") as owner, names=names):
                for alias in names:
                    if alias.name in UNCONTROLLED[owner]:
                        yield f"{module.place}:{node.lineno} imports {owner}.{alias.name}"


def test_only_the_clock_reads_the_time():
    offences = [
        offence
        for module in modules()
        if module.place != CLOCK
        for offence in uncontrolled(module)
        if re.sub(r":\d+", "", offence) not in WAITS_FOR_THE_MACHINE
    ]
    assert not offences, "ask the app's clock or random source:\n" + "\n".join(offences)


def test_the_search_finds_what_it_is_for():
    text = (
        "import time, datetime, random, asyncio\n"
        "time.sleep(1)\n"
        "datetime.datetime.now()\n"
        "random.random()\n"
        "asyncio.sleep(0)\n"
        "from time import monotonic\n"
        "clock.sleep(1)\n"
        "engine.random.random()\n"
    )
    example = Source(modules()[0].path, text)
    assert {found.split(maxsplit=1)[1] for found in uncontrolled(example)} == {
        "calls datetime.now",
        "calls random.random",
        "calls time.sleep",
        "imports time.monotonic",
    }
