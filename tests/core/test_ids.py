"""Job ids: increasing, well formed, hard to guess, and never the same in a forked child."""

import os
import re
import threading

import pytest

from tinyjobs.core import ids
from tinyjobs.core.ids import IdSource, random_bits

FORM = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


@pytest.mark.parametrize("instants", [[1e9] * 50, [1e9 + number / 1000 for number in range(50)], [2e9, 1e9] * 25])
def test_ids_increase_whatever_the_clock_does(instants):
    source = IdSource()
    made = [source.make(now) for now in instants] + source.make_many(instants[-1], 5)
    assert made == sorted(set(made))
    assert all(FORM.fullmatch(each) for each in made)


def test_an_id_tells_its_millisecond_and_no_clock_is_too_early():
    assert IdSource().make(1_700_000_000.1239).replace("-", "")[:12] == f"{1_700_000_000_123:012x}"
    assert FORM.fullmatch(IdSource().make(-5.0))


def test_the_random_part_is_as_long_as_was_asked_for():
    for bits in (1, 31, 32, 33, 73, 74, 32 * 255, 32 * 257):
        drawn = [random_bits(bits) for _ in range(200)]
        assert max(drawn) < 1 << bits
        assert max(value.bit_length() for value in drawn) > bits - 10
        assert bits < 32 or len(set(drawn)) == 200


def test_threads_draw_no_word_twice():
    drawn, barrier = [], threading.Barrier(4)

    def draw():
        barrier.wait()
        drawn.extend([random_bits(64) for _ in range(2_000)])

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == 8_000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_draws_its_own():
    random_bits(32)
    assert ids._words, "the parent has some left"
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writer, f"{len(ids._words)} {random_bits(64)}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    left, drawn = map(int, os.read(reader, 100).split())
    assert (left, drawn == random_bits(64)) == (0, False)
    os.close(reader)
    os.close(writer)
