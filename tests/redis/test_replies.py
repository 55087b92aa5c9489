"""What is sent and what comes back, as bytes: taken apart the same however the network cuts it, with hiredis or not."""

import importlib.util
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyjobs.backends.redis.replies import FastReplies, InvalidReply, Replies, ReplyError, packed

WAYS = [Replies]
if importlib.util.find_spec("hiredis"):
    import hiredis

    WAYS.append(lambda: FastReplies(hiredis.Reader))

values = st.recursive(
    st.none() | st.integers(-(2**63), 2**63 - 1) | st.binary(max_size=40) | st.sampled_from([b"OK", b"\r\n", b""]),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=20,
)


def written(value):
    if value is None:
        return b"$-1\r\n"
    if isinstance(value, int):
        return b":%d\r\n" % value
    if isinstance(value, bytes):
        return b"$%d\r\n%b\r\n" % (len(value), value)
    return b"*%d\r\n%b" % (len(value), b"".join(map(written, value)))


@pytest.fixture(params=WAYS, ids=["own", "hiredis"][: len(WAYS)])
def replies(request):
    return request.param()


@pytest.mark.parametrize("way", WAYS, ids=["own", "hiredis"][: len(WAYS)])
@settings(deadline=None)
@given(sent=st.lists(values, max_size=4), cuts=st.lists(st.integers(0, 400), max_size=8))
def test_replies_come_back_however_they_are_cut(way, sent, cuts):
    data = b"".join(map(written, sent))
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    replies, found = way(), []
    for start, end in itertools.pairwise(edges):
        if start < end:
            found += replies.feed(data[start:end])
    assert found == sent


def test_a_large_answer_in_small_pieces_is_put_together_once(replies):
    items = [b"x" * 3_000_000, b"", *([b"item"] * 20_000)]
    data, found = written(items), []
    for at in range(0, len(data), 4096):
        found += replies.feed(data[at : at + 4096])
    assert found == [items]


def test_a_status_and_an_error_are_told_apart_also_inside(replies):
    status, error, (inner, one) = replies.feed(b"+OK\r\n-ERR it failed\r\n*2\r\n-WRONGTYPE no\r\n:1\r\n")
    assert (status, one) == (b"OK", 1)
    assert isinstance(error, ReplyError) and str(error) == "ERR it failed"
    assert isinstance(inner, ReplyError) and str(inner) == "WRONGTYPE no"


def test_an_empty_list_and_none(replies):
    assert replies.feed(b"*0\r\n*-1\r\n$0\r\n\r\n") == [[], None, b""]


@pytest.mark.parametrize("data", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"*x\r\n", b"$1x\r\nab\r\n", b":\r\n"])
def test_what_is_no_reply_is_refused(replies, data):
    with pytest.raises(InvalidReply):
        replies.feed(data)


def test_a_line_without_an_end_is_not_kept_for_ever():
    replies = Replies()
    with pytest.raises(InvalidReply):
        for _ in range(20):
            replies.feed(b"+" + b"x" * 100_000)


def test_a_command_as_it_is_sent():
    assert packed(["SET", "ü", b"\0", 7, -0.1, 1e300]) == (
        b"*6\r\n$3\r\nSET\r\n$2\r\n\xc3\xbc\r\n$1\r\n\0\r\n$1\r\n7\r\n$4\r\n-0.1\r\n$6\r\n1e+300\r\n"
    )


@settings(deadline=None)
@given(words=st.lists(st.binary(max_size=3) | st.text(max_size=3) | st.sampled_from([b"x" * 511, "x" * 512])))
def test_a_command_reads_as_the_list_of_its_words(words):
    expected = [word if isinstance(word, bytes) else word.encode() for word in words]
    assert Replies().feed(packed(words)) == [expected]


@pytest.mark.parametrize("word", [None, True, [], object()])
def test_what_is_no_word_is_a_mistake_of_the_programs(word):
    with pytest.raises(TypeError, match="texts, bytes and numbers"):
        packed(["GET", word])


def test_half_a_character_is_refused():
    with pytest.raises(UnicodeEncodeError):
        packed(["\ud800"])
