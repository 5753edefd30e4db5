"""A loaded function takes its arguments, and describes itself, as the saved one does."""

import inspect

import jax.numpy as jnp
import numpy as np
import pytest

import bellhop

W, X = np.ones((2, 2)), np.ones(2)


def model(w, x, scale=2.0, *, shift=0.5, order: int = 1):
    """Predict."""
    return w @ x * scale + shift


def loaded(function, path, *calls):
    f = bellhop.qjit(function)
    for args, kwargs in calls:
        f(*args, **kwargs)
    f.save(path)
    return bellhop.load(path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.bellhop"


def test_name_docstring_and_signature_are_the_functions(path):
    def shown(a: "list[int]", /, b=(1, {"c": 2.5}), *rest, k: float = 1.0, w=X, **kwargs) -> float:
        return a

    for function, args in ((model, (W, X)), (shown, (1.0,)), (lambda: jnp.ones(2), ())):
        f = loaded(function, path, (args, {}))
        assert str(inspect.signature(f)) == str(inspect.signature(function))
        assert (f.__name__, f.__doc__) == (function.__name__, function.__doc__)
        f(*args)
        f.save(path)
        assert str(inspect.signature(bellhop.load(path))) == str(inspect.signature(function))
    assert inspect.signature(loaded(model, path, ((W, X), {}))) == inspect.signature(model)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((W, X), {}),
        ((W,), {"x": X}),
        ((), {"x": X, "w": W}),
        ((W, X, 2.0), {}),
        ((W, X), {"shift": 0.5}),
    ],
)
def test_default_values_are_those_of_the_program(path, args, kwargs):
    f = loaded(model, path, ((W, X), {}))
    np.testing.assert_array_equal(f(*args, **kwargs), model(*args, **kwargs))
    np.testing.assert_array_equal(f.lower(*args, **kwargs).compile()(W, X), model(W, X))


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((W, X), {}),
        ((W, X), {"scale": 3.0}),
        ((W, X, 4.0), {"shift": 1.0}),
        ((), {"x": X, "w": W, "shift": 3.0}),
    ],
)
def test_default_values_fill_the_programs_arguments(path, args, kwargs):
    f = loaded(model, path, ((W, X, 1.0), {"shift": 1.0}))
    np.testing.assert_array_equal(f(*args, **kwargs), model(*args, **kwargs))


def test_the_types_of_the_arguments_choose_the_program(path):
    f = loaded(lambda x: 2 * x, path, ((1.0,), {}), ((), {"x": np.ones(3)}))
    for call in (f(2.0), f(x=2.0), f(np.ones(3)), f(x=np.ones(3))):
        np.testing.assert_array_equal(call, 2 * np.ones(3) if call.ndim else 4)


def test_declared_types_are_promoted_to(path):
    def declared(x: float, n: int = 3):
        return x * n

    f = loaded(declared, path)
    assert (f(2), f(x=2), f(n=4, x=np.float32(0.5))) == (6, 6, 2)
    with pytest.raises(TypeError, match=r"x is float64\[2\], expected float64\[\]"):
        f(X)


def test_arguments_of_any_number(path):
    def total(x, *rest, **named):
        return x + sum(rest) + sum(named.values())

    f = loaded(total, path, ((1.0, 2.0, 3.0), {"z": 2.0}), ((1.0,), {}))
    assert (f(1.0, 2.0, 3.0, z=4.0), f(x=1.5)) == (10, 1.5)
    with pytest.raises(TypeError, match=r"called with \(x: float64\[\], args\[1\]: float64\[\]\)"):
        f(1.0, 2.0)


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        (
            (W,),
            {},
            r"the arguments do not match: missing a required argument: 'x'. The function takes "
            r"\(w, x, scal",
        ),
        ((W, X, 1.0, 2.0), {}, "too many positional arguments"),
        ((W,), {"z": 1.0}, "got the unknown keyword 'z'. The function takes"),
        ((W, np.ones(3)), {}, r"x is float64\[3\], expected float64\[2\]. The file has prog"),
        ((W, [X]), {}, r"x has the structure \[array\], expected array"),
        ((W, X, 3.0), {}, "there is an argument scale, which is not expected"),
        ((W, "text"), {}, "the argument x is of type str"),
    ],
)
def test_wrong_arguments_are_named(path, args, kwargs, text):
    f = loaded(model, path, ((W, X), {}))
    with pytest.raises(TypeError, match=text) as raised:
        f(*args, **kwargs)
    assert "PyTreeDef" not in str(raised.value)
