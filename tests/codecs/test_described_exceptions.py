"""Any exception can be told in bounded, storable text, whatever its class does."""

import sys
import traceback

import pytest

from tinyjobs.core.storable import MESSAGE_LIMIT, TRACEBACK_LIMIT, describe_exception


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def checked(error: BaseException):
    told = describe_exception(error)
    assert [type(part) for part in told] == [str, str, str]
    assert 0 < len(told.error_type) <= 255
    assert len(told.message) <= MESSAGE_LIMIT
    assert 0 < len(told.traceback) <= TRACEBACK_LIMIT
    for part in told:
        part.encode("utf-8")
        assert "\0" not in part
    return told


def test_an_everyday_exception_reads_as_python_would_print_it():
    def inner():
        return {}["missing"]

    try:
        try:
            inner()
        except KeyError as error:
            raise ValueError("bad order") from error
    except ValueError as error:
        told = checked(error)
        expected = "".join(traceback.format_exception(error))
    assert told.error_type == "builtins.ValueError"
    assert told.message == "bad order"
    assert told.traceback == expected


def test_context_is_told_unless_it_is_suppressed():
    try:
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError("second")  # noqa: B904
    except ValueError as error:
        assert checked(error).traceback == "".join(traceback.format_exception(error))
        error.__suppress_context__ = True
        assert "first" not in checked(error).traceback


class NeedsArguments(Exception):
    def __init__(self, code, reason):
        self.code, self.reason = code, reason


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no words")

    __repr__ = __str__


class Violent(Exception):
    def __str__(self):
        raise SystemExit(3)


class NotText(Exception):
    def __str__(self):
        return 42  # noqa: PLE0307


class SlyText(str):
    def __str__(self):
        raise AssertionError

    def __len__(self):
        return 10**9


class Sly(Exception):
    def __str__(self):
        return SlyText("sly")


class BadRepr:
    def __repr__(self):
        raise ZeroDivisionError


class Surprising(Exception):
    @property
    def __cause__(self):
        raise RuntimeError("surprise")


class Mute(type):
    def __getattribute__(cls, name):
        raise RuntimeError(name)


@pytest.mark.parametrize(
    ("error", "error_type", "message"),
    [
        (NeedsArguments(1, "x"), "NeedsArguments", "(1, 'x')"),
        (Unspeakable("x"), "Unspeakable", "RuntimeError"),
        (Violent("x"), "Violent", "SystemExit"),
        (NotText("x"), "NotText", "TypeError"),
        (Sly("x"), "Sly", "sly"),
        (ValueError(BadRepr(), 1), "builtins.ValueError", "ZeroDivisionError"),
        (KeyError("a\0b\ud800"), "builtins.KeyError", "a\\x00b\\ud800"),
        (ValueError("a\0b\ud800"), "builtins.ValueError", "a\\x00b\\ud800"),
        (ValueError(), "builtins.ValueError", ""),
        (KeyboardInterrupt(), "builtins.KeyboardInterrupt", ""),
        (GeneratorExit("g"), "builtins.GeneratorExit", "g"),
        (StopIteration(3), "builtins.StopIteration", "3"),
        (SystemExit(2), "builtins.SystemExit", "2"),
        (Surprising("x"), "Surprising", "x"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "builtins.UnicodeDecodeError", "0xff"),
        (SyntaxError("bad", ("f.py", 1, 2, "x y")), "builtins.SyntaxError", "bad (f.py, line 1)"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_odd_exceptions(error, error_type, message):
    told = checked(raised(error))
    assert error_type in told.error_type
    assert message in told.message
    assert told.error_type.rpartition(".")[2] in told.traceback
    wrapped = ValueError("outer")
    wrapped.__cause__ = error
    assert "outer" in checked(raised(wrapped)).traceback
    assert "outer" in checked(raised(BaseExceptionGroup("outer", [error]))).traceback


def test_a_class_inside_a_function():
    class Local(Exception):
        pass

    told = checked(raised(Local("x")))
    assert told.error_type == f"{__name__}.test_a_class_inside_a_function.<locals>.Local"


def test_a_class_that_does_not_say_its_name():
    error = Mute("Nameless", (Exception,), {})("x")
    told = checked(raised(error))
    assert told.message == "x"


def test_an_enormous_message():
    for error in (ValueError("x" * 50_000_000), KeyError("y" * 5_000_000), ValueError(b"z" * 5_000_000, 1)):
        told = checked(raised(error))
        assert "left out" in told.message
        group = checked(raised(ExceptionGroup("g", [error, error, ValueError("x" * 5_000_000)])))
        assert "left out" in group.traceback


def test_enormous_notes():
    error = ValueError("x")
    for index in range(100):
        error.add_note(f"note {index} " + "n" * 100_000)
    assert "note 0" in checked(raised(error)).traceback
    error.__notes__ = [BadRepr(), None, "a\0"]
    assert "a\\x00" in checked(raised(error)).traceback
    error.__notes__ = 5
    checked(raised(error))


def test_a_chain_in_a_loop():
    first, second = raised(ValueError("first")), raised(KeyError("second"))
    first.__cause__, second.__cause__ = second, first
    told = checked(first)
    assert told.traceback.count("ValueError: first") == 1
    assert told.traceback.count("KeyError: 'second'") == 1
    own = raised(ValueError("own"))
    own.__cause__ = own
    assert checked(own).traceback.count("ValueError: own") == 1
    group = ExceptionGroup("g", [first])
    second.__cause__ = group
    assert "ValueError: first" in checked(group).traceback


def test_a_very_long_chain_keeps_the_newest():
    error: Exception = ValueError(0)
    for index in range(1, 5_000):
        newer = ValueError(index)
        newer.__context__ = error
        error = newer
    told = checked(error)
    assert "earlier exceptions left out" in told.traceback
    assert told.traceback.endswith("ValueError: 4999\n")


def test_groups_show_their_members():
    group = ExceptionGroup("several", [raised(ValueError("one")), ExceptionGroup("inner", [raised(KeyError("two"))])])
    group.add_note("a note")
    told = checked(raised(group))
    for piece in ("several (2 sub-exceptions)", "ValueError: one", "inner", "KeyError: 'two'", "a note"):
        assert piece in told.traceback


def test_wide_and_deep_groups_are_bounded():
    wide = ExceptionGroup("wide", [ValueError(index) for index in range(20_000)])
    assert "19988 more left out" in checked(wide).traceback
    deep: Exception = ValueError("bottom")
    for _ in range(200):
        deep = ExceptionGroup("level", [deep])
    assert "1 more left out" in checked(deep).traceback
    both: Exception = ValueError("bottom")
    for _ in range(8):
        both = ExceptionGroup("level", [both] * 12)
    checked(both)
    tree: list[Exception] = [ValueError("leaf") for _ in range(10)]
    for _ in range(4):
        tree = [ExceptionGroup("level", [ExceptionGroup("copy", tree) for _ in range(10)])]
    checked(tree[0])


def test_a_deep_recursion_keeps_both_ends_of_the_stack():
    def down(levels):
        return down(levels - 1) if levels % 2 else down_other(levels - 1)

    def down_other(levels):
        return down(levels - 1) if levels > 0 else at_the_bottom()

    def at_the_bottom():
        raise ValueError("bottom")

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(6_000)
    try:
        down(4_001)
    except ValueError as error:
        told = checked(error)
    finally:
        sys.setrecursionlimit(limit)
    assert "frames left out" in told.traceback
    assert "test_a_deep_recursion_keeps" in told.traceback
    assert "at_the_bottom" in told.traceback
    assert told.traceback.endswith("ValueError: bottom\n")


def test_the_error_of_too_deep_a_recursion():
    def forever():
        forever()

    with pytest.raises(RecursionError) as caught:
        forever()
    assert checked(caught.value).error_type == "builtins.RecursionError"


def test_locals_are_not_looked_at():
    hostile = BadRepr()
    told = checked(raised(ValueError(f"{type(hostile).__name__} near by")))
    assert "BadRepr" in told.message


def test_source_that_cannot_be_read():
    class Loader:
        def get_source(self, name):
            raise ZeroDivisionError

    code = compile("def f():\n    raise ValueError('from nowhere')\n", "nowhere/module.py", "exec")
    space = {"__name__": "nowhere", "__loader__": Loader()}
    exec(code, space)
    with pytest.raises(ValueError) as caught:
        space["f"]()
    assert 'File "nowhere/module.py", line 2, in f' in checked(caught.value).traceback


def test_an_exception_that_was_never_raised():
    assert checked(ValueError("x")).traceback == "ValueError: x\n"


def test_the_exception_is_left_as_it_was():
    error = raised(ValueError("x"))
    before = (error.__traceback__, error.__traceback__.tb_next, error.args)
    checked(error)
    assert (error.__traceback__, error.__traceback__.tb_next, error.args) == before
