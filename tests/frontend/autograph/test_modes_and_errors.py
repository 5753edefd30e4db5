"""What autograph does not convert, and how it says so."""

import os
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop

HERE = os.path.basename(__file__)


def line_of(function, offset):
    return function.__code__.co_firstlineno + offset


@pytest.fixture
def strict(monkeypatch):
    monkeypatch.setattr(bellhop, "autograph_strict_conversion", True)


def indexes_a_list(x):
    values = [1.0, 2.0, 3.0]
    for i in range(3):
        x = x + len(values[: i + 1]) * values[i]
    return x


def test_a_fallback_names_the_line():
    with pytest.warns(UserWarning, match="runs as Python") as seen:
        assert bellhop.qjit(indexes_a_list, autograph=True)(1.0) == 15.0
    message = str(seen[0].message)
    line = line_of(indexes_a_list, 2)
    assert f"the for loop ({__file__}:{line}) is not converted and runs as Python: " in message
    assert (seen[0].filename, seen[0].lineno) == (__file__, line)


def test_a_fallback_is_told_once(recwarn):
    def indexes(x):
        for i in range(2):
            x = x * [1.0, 2.0][i]
        return x

    function = bellhop.qjit(indexes, autograph=True)
    for x in (1.0, 1, np.ones(2)):
        with warnings.catch_warnings():
            function(x)
    assert len([each for each in recwarn if "runs as Python" in str(each.message)]) == 1


def test_a_fallback_in_a_circuit_leaves_nothing_behind():
    import pennylane as qml

    def circuit(x):
        qml.Hadamard(0)
        names = [qml.RX, qml.RY]
        for i in range(2):
            qml.RZ(x, wires=0)
            names[i](x, wires=0)
        return qml.probs()

    with pytest.warns(UserWarning, match="the for loop"):
        result = bellhop.qjit(
            qml.QNode(circuit, qml.device("lightning.qubit", wires=1)), autograph=True
        )(0.3)
    expected = qml.QNode(circuit, qml.device("default.qubit", wires=1))(0.3)
    np.testing.assert_allclose(result, expected, atol=1e-9)


def test_fallbacks_can_be_silent(monkeypatch):
    monkeypatch.setattr(bellhop, "autograph_ignore_fallbacks", True)
    assert bellhop.qjit(indexes_a_list, autograph=True)(1.0) == 15.0


def test_fallbacks_can_be_errors(strict):
    message = rf"{HERE}:{line_of(indexes_a_list, 2)}\) is not converted, and conversion is strict"
    with pytest.raises(bellhop.AutoGraphError, match=message):
        bellhop.qjit(indexes_a_list, autograph=True)(1.0)


def one_branch_defines(x):
    if x > 1:
        y = 2.0
    return y


def one_branch_makes_text(x):
    y = 1.0
    if x > 1:
        y = "text"
    return len(str(y)) * x


def structures_differ(x):
    y = (x,)
    if x > 1:
        y = (x, x)
    return y


def returns_on_some_paths(x):  # noqa: RET503
    if x > 1:
        return x


def undefined_before_a_loop(x):
    for i in range(jnp.int64(x)):
        y = i
    return y


def loop_changes_an_object(x):
    word = "a"
    while x < 10:
        word = word + "b"
        x = x * 2
    return len(word)


ERRORS = {
    one_branch_defines: (1, "only one branch gives 'y' a value"),
    one_branch_makes_text: (
        2,
        "'y' is .* of type str after one branch and 1.0 of type float",
    ),
    structures_differ: (2, "'y' has the structure .* after one branch"),
    undefined_before_a_loop: (1, "'y' has no value before the for loop"),
    loop_changes_an_object: (2, "changes 'word', which is of type str"),
}


@pytest.mark.parametrize(
    ("function", "error"), ERRORS.items(), ids=lambda v: getattr(v, "__name__", "")
)
def test_errors_name_the_line(function, error):
    offset, message = error
    with pytest.raises(bellhop.AutoGraphError, match=message) as raised:
        bellhop.qjit(function, autograph=True)(2.0)
    assert f"{__file__}:{line_of(function, offset)}" in str(raised.value)


def test_returning_on_some_paths_only_is_an_error():
    with pytest.raises(bellhop.AutoGraphError, match="a traced condition. Return a value on every"):
        bellhop.qjit(returns_on_some_paths, autograph=True)(2.0)


def test_an_error_of_the_users_has_the_users_line():
    def inner(x):
        raise LookupError("mine")

    def outer(x):
        if x > 0:
            x = inner(x)
        return x

    with pytest.raises(LookupError, match="mine") as raised:
        bellhop.qjit(outer, autograph=True)(2.0)
    assert raised.value.__notes__[0].endswith(f"at {__file__}:{line_of(inner, 1)}")
    assert len([note for note in raised.value.__notes__ if "autograph" in note]) == 1


def test_nothing_is_converted_where_it_is_disabled():
    converted = []

    @bellhop.disable_autograph
    def plain():
        x = 6
        return x**2 if x > 5 else x**3

    @bellhop.qjit(autograph=True)
    def f(x, n):
        for _ in range(n):
            x = x + plain()
        with bellhop.disable_autograph:
            for i in range(2):
                converted.append(i)
        return x

    np.testing.assert_allclose(f(0.4, 6), 216.4)
    assert converted == [0, 1]
    with pytest.raises(Exception, match="[Tt]raced|[Tt]racer"):
        bellhop.qjit(bellhop.disable_autograph(returns_on_some_paths), autograph=True)(1.0)


def test_source_is_shown_once_converted():
    def called(x):
        return 1 if x > 2 else 0

    @bellhop.qjit(autograph=True)
    def f(x):
        return called(x)

    with pytest.raises(bellhop.AutoGraphError, match="was not converted"):
        bellhop.autograph_source(called)
    f(1.0)
    assert "ag__.if_exp" in bellhop.autograph_source(called)
    assert "converted_call" in bellhop.autograph_source(f)
    assert bellhop.autograph_source(f) == bellhop.autograph_source(f.original_function)


LIBRARY = """
def choose(x):
    if x > 1:
        return x * 2
    return x
"""


def test_libraries_are_converted_when_they_are_included(tmp_path, monkeypatch):
    (tmp_path / "sympy_like.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path)
    import sympy_like

    from bellhop.autograph import converted_calls

    monkeypatch.setattr(converted_calls, "_LIBRARIES", converted_calls._LIBRARIES | {"sympy_like"})

    def f(x):
        return sympy_like.choose(x)

    with pytest.raises(Exception, match="[Tt]racer|[Tt]raced"):
        bellhop.qjit(f, autograph=True)(2.0)
    for include in ("sympy_like", sympy_like):
        assert bellhop.qjit(f, autograph=True, autograph_include=[include])(2.0) == 4.0
    assert bellhop.qjit(bellhop.run_autograph(f, "sympy_like"))(2.0) == 4.0


def test_what_has_no_source_runs_as_it_is():
    namespace = {}
    exec("def f(x):\n    return x + 1", namespace)  # noqa: S102

    @bellhop.qjit(autograph=True)
    def g(x):
        return namespace["f"](x)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert g(1.0) == 2.0
    with pytest.raises(bellhop.AutoGraphError, match="'f' .* cannot be converted by autograph"):
        bellhop.run_autograph(namespace["f"])
    with pytest.raises(TypeError, match="run_autograph takes a function, got 3"):
        bellhop.run_autograph(3)


def test_the_module_is_the_same_in_every_process(run_script, tmp_path):
    (tmp_path / "program.py").write_text(
        "import bellhop, numpy as np\n"
        "@bellhop.qjit(autograph=True)\n"
        "def f(x):\n"
        "    for i in range(3):\n"
        "        x = bellhop.pure_callback(np.sin, float)(x)\n"
        "    return x\n"
        "f(1.0)\n"
        "print(f.mlir)\n"
    )
    one, other = (run_script("import program", PYTHONPATH=_path(tmp_path)) for _ in range(2))
    assert one == other
    assert f"{tmp_path / 'program.py'}:5" in one


def _path(directory):
    return os.pathsep.join([str(directory), os.environ.get("PYTHONPATH", "")])


def test_a_loop_over_what_is_no_array_is_refused_in_strict_mode(monkeypatch):
    monkeypatch.setattr(bellhop, "autograph_strict_conversion", True)

    @bellhop.qjit(autograph=True)
    def f(x):
        for word in ["one", "two"]:
            x = x + len(word)
        return x

    with pytest.raises(
        bellhop.AutoGraphError, match="and conversion is strict .*: the loop iterates over a list"
    ):
        f(1.0)

    @bellhop.qjit(autograph=True)
    def g(x):
        with bellhop.disable_autograph:
            for word in ["one", "two"]:
                x = x + len(word)
        return x

    assert g(1.0) == 7


def test_who_asks_for_a_truth_is_told_what_the_program_has_for_it():
    with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
        bellhop.qjit(lambda x: max(x, 1.0), autograph=True)(2.0)
    assert any(
        "jnp.maximum in place of max, jnp.isin in place of in" in note
        for note in caught.value.__notes__
    )
