"""Exceptions raised in callbacks reach the caller as the objects that they are."""

import traceback

import jax
import pytest

import bellhop


class UserError(Exception):
    pass


class OddError(Exception):
    """Cannot be made from its own arguments."""

    def __init__(self, code, *, detail):
        super().__init__(code)
        self.detail = detail


class SlottedError(Exception):
    __slots__ = ("code",)


class NoNotesError(Exception):
    def add_note(self, note):
        raise TypeError("no notes here")


class FrozenError(Exception):
    def __setattr__(self, name, value):
        raise AttributeError(f"no {name}")


class SilentError(Exception):
    def __str__(self):
        raise RuntimeError("no text either")


class SurrogateError(Exception):
    def __str__(self):
        return "\udcff\0 not UTF-8 [bellhop run 1]"


EXCEPTIONS = [
    UserError("text", 3),
    ValueError("text"),
    TypeError(),
    KeyError("key"),
    ZeroDivisionError("x"),
    StopIteration(3),
    OddError(3, detail={"a": 1}),
    SlottedError("x"),
    NoNotesError("x"),
    FrozenError("x"),
    SilentError(),
    SurrogateError(),
    ExceptionGroup("group", [ValueError("1"), TypeError("2")]),
    KeyboardInterrupt(),
    SystemExit(3),
    GeneratorExit(),
    MemoryError(),
    RecursionError("user's own"),
    AssertionError("a"),
    OSError(2, "No such file", "name"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "reason"),
    jax.errors.JaxRuntimeError("INTERNAL: pretended [bellhop run 0]"),
]


@pytest.mark.parametrize("exception", EXCEPTIONS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("flavour", ["pure", "debug"])
@pytest.mark.parametrize("form", [bellhop.qjit, lambda f: f], ids=["qjit", "eager"])
def test_same_object_on_first_and_cached_calls(exception, flavour, form, raising):
    f = form(raising(exception, flavour))
    args = exception.args
    for value in (1.0, 2.0, -1.0, 1.0, -2.0):
        if value < 0:
            assert f(value) == value
            continue
        with pytest.raises(type(exception)) as caught:
            f(value)
        assert caught.value is exception
        assert caught.value.args == args
    # pytest and this list hold on to it.
    exception.with_traceback(None)


def test_note_names_callback_and_line_of_the_call():
    def broken(x) -> float:
        raise UserError("text")

    callback = bellhop.pure_callback(broken)

    def traced(x):
        return callback(x)  # the line

    line = traced.__code__.co_firstlineno + 1
    with pytest.raises(UserError) as caught:
        bellhop.qjit(traced)(1.0)
    assert caught.value.__notes__ == [f"raised in callback 'broken', called from {__file__}:{line}"]


@pytest.mark.parametrize("kind", [FrozenError, NoNotesError])
def test_note_is_added_to_exceptions_that_refuse_it(kind, raising):
    with pytest.raises(kind) as caught:
        bellhop.qjit(raising(kind("x"), "pure"))(1.0)
    (note,) = caught.value.__notes__
    assert note.startswith("raised in callback ")


def test_note_is_added_once_to_an_exception_that_is_raised_often(raising):
    exception = UserError()
    f = bellhop.qjit(raising(exception, "pure"))
    for _ in range(3):
        with pytest.raises(UserError):
            f(1.0)
    assert len(exception.__notes__) == 1
    exception.with_traceback(None)


def test_traceback_shows_the_users_frames():
    def innermost():
        raise UserError("deep")

    def helper():
        innermost()

    def callback(x) -> float:
        helper()

    f = bellhop.qjit(lambda x: bellhop.pure_callback(callback)(x))
    for _ in range(2):
        with pytest.raises(UserError) as caught:
            f(1.0)
        names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert names[-3:] == ["callback", "helper", "innermost"]
        assert names[0] == "test_traceback_shows_the_users_frames"


def test_cause_and_context_are_kept():
    def with_cause(x) -> float:
        try:
            raise KeyError("cause")
        except KeyError as error:
            raise UserError("effect") from error

    def with_context(x) -> float:
        try:
            raise KeyError("context")
        except KeyError:
            raise UserError("effect")  # noqa: B904

    for function in (with_cause, with_context):
        f = bellhop.qjit(lambda x, g=function: bellhop.pure_callback(g)(x))
        for _ in range(2):
            with pytest.raises(UserError) as caught:
                f(1.0)
            assert type(caught.value.__context__) is KeyError
            assert (caught.value.__cause__ is not None) == (function is with_cause)


def test_no_context_of_ours(raising):
    f = bellhop.qjit(raising(UserError("x"), "pure"))
    for _ in range(2):
        with pytest.raises(UserError) as caught:
            f(1.0)
        assert caught.value.__context__ is None
        assert caught.value.__cause__ is None
