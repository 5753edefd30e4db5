"""What traced functions return that is no array."""

import pytest

import bellhop


@pytest.mark.parametrize("text", ["a", "float", b"1.5"])
@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (lambda x, text: text, "the result is of type (str|bytes), which is not an array"),
        (
            lambda x, text: bellhop.cond(x > 0, lambda: text, lambda: text)(),
            "returns a (str|bytes)",
        ),
        (
            lambda x, text: bellhop.for_loop(0, 3, 1)(lambda i, t: t)(text),
            r"for_loop: the initial value init\[0\] is a (str|bytes)",
        ),
    ],
)
@pytest.mark.filterwarnings("error")
def test_text_is_no_array_whatever_it_names(text, returned, words):
    with pytest.raises(TypeError, match=words):
        bellhop.qjit(lambda x: returned(x, text))(1.0)


@pytest.mark.parametrize(
    "construct",
    [
        lambda x: bellhop.cond(x > 0, lambda: x, lambda: x),
        lambda x: bellhop.for_loop(0, 3, 1)(lambda i, y: y),
        lambda x: bellhop.cond(x > 0, lambda: bellhop.cond(x > 0, lambda: x), lambda: x)(),
    ],
)
def test_what_was_not_called_is_to_be_called(construct):
    with pytest.raises(
        TypeError, match=r"call a function to return its result, f\(\) in place of f"
    ):
        bellhop.qjit(construct)(1.0)
