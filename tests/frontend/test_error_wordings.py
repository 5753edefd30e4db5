"""Errors of the public functions that no other test raises, by what they say."""

import functools

import jax
import numpy as np
import pennylane as qml
import pytest
from tests.needs import PYTORCH

import bellhop
from bellhop.circuits.backends.compiled.lowering.plugin_devices import check_version


def raises(words, function, *args, error=Exception, **kwargs):
    with pytest.raises(error) as caught:
        function(*args, **kwargs)
    assert words in str(caught.value)


def test_options_of_accelerate():
    raises(
        "accelerate has no options device, expected func, dev and",
        bellhop.accelerate,
        np.sin,
        device="cpu",
    )
    raises("names a device twice. Name", bellhop.accelerate, np.sin, dev=jax.devices()[:1] * 2)


def test_options_of_qjit():
    raises("from 0 to 2**64 - 1, got 1.5", bellhop.qjit, abs, error=TypeError, seed=1.5)
    for words, options in [
        ("seed must be an integer from 0 to", {"seed": -1}),
        ("target must be one of binary", {"target": "gpu"}),
        ("keep_intermediate must be a bool,", {"keep_intermediate": 7}),
        (
            "has no options, got",
            {"circuit_transform_pipeline": {"cancel_inverses": {"a": 1}}},
        ),
    ]:
        raises(words, bellhop.qjit, abs, error=ValueError, **options)


@pytest.mark.parametrize("digits", [400, 5000])
def test_integers_of_many_digits_are_not_shown(digits):
    """Of the longer ones Python itself does not."""
    large = 10**digits
    bits = f"<int of {large.bit_length()} bits>"
    if digits == 400:
        raises(bits, bellhop.qjit(lambda x: x), large, error=OverflowError)
    raises(bits, bellhop.qjit(lambda x: large), 1.0, error=OverflowError)
    raises(bits, bellhop.pure_callback(lambda: large, float), error=OverflowError)
    raises(bits, bellhop.qjit, abs, error=ValueError, seed=large)


def test_format_strings():
    show = bellhop.debug.print
    raises("has fields with numbers and fields", show, "{0} {}", 1, 2, error=ValueError)
    raises("is not a format string", show, "{", error=ValueError)
    raises("has no value for x", show, "{x}", error=ValueError)
    raises("has no field for x", show, "text {}", 1, x=1, error=ValueError)
    raises("unknown conversion 'q'", show, "{!q}", 1.0, error=ValueError)


def test_rules_of_pure_callback():
    product = bellhop.pure_callback(lambda x, y: x * y, float)

    @product.fwd
    def fwd(x, y):
        return product(x, y), None

    with pytest.raises(bellhop.DifferentiableCompileError, match="A derivative needs both"):
        bellhop.grad(product)(1.0, 2.0)

    @product.bwd
    def bwd(residuals, cotangent):
        return (cotangent,)

    raises("Return one for each, None", bellhop.grad(product), 1.0, 2.0, error=TypeError)

    pair = bellhop.pure_callback(lambda x: (x, x), (float, float))
    pair.jvp(lambda primals, tangents: (pair(primals[0]), tangents[0]))
    total = lambda x: sum(pair(x))
    raises(", expected (array, array), the structure of", bellhop.grad(total), 1.0, error=TypeError)


def test_an_annotation_that_cannot_be_evaluated():
    def call(x) -> "Nothing":  # noqa: F821
        return x

    raises("which cannot be evaluated", bellhop.pure_callback, call, error=TypeError)


def test_two_arguments_for_one_result():
    scalar = jax.ShapeDtypeStruct((), float)
    add = bellhop.buffer_callback(
        lambda context, out, x, y: None, scalar, input_output_aliases={0: 0, 1: 0}
    )
    raises("two arguments for one result.", add, 1.0, 2.0, error=ValueError)


def test_conditionals_and_differences():
    raises(
        "got false_fn without true_fn. Pass true_fn too, or pass no functions",
        bellhop.cond,
        True,
        false_fn=lambda: 1,
        error=TypeError,
    )
    raises("for_loop: got the function", bellhop.for_loop, abs, error=TypeError)
    raises("h is the step of", lambda: bellhop.grad(abs, method="auto", h=0.1)(1.0))


def test_progress():
    raises("progress takes a number of", bellhop.progress, 1.5, error=TypeError)
    raises("expected at least 0 iterations, got -1", bellhop.progress, -1, error=ValueError)
    looped = lambda: bellhop.for_loop(0, 3, 1, progress=1)(lambda i: None)()
    raises("the description of the bar, got", looped, error=TypeError)


def test_profiles():
    raises("limit must be at least 0", bellhop.profile, limit=-1, error=ValueError)
    with bellhop.profile() as profile:
        pass
    raises("can be used once only", profile.__enter__, error=RuntimeError)


def test_pictures(tmp_path, monkeypatch):
    drawing = bellhop.draw(lambda x: x)(1.0)
    raises("give a name that ends", drawing.save, tmp_path / "picture.txt", error=ValueError)
    monkeypatch.setenv("PATH", "")
    raises("needs neither.", drawing.save, tmp_path / "picture.svg", error=RuntimeError)


def test_functions_that_cannot_be_saved(tmp_path):
    partial = bellhop.qjit(bellhop.pure_callback(functools.partial(abs), float))
    partial(1.0)
    raises("a functools.partial has no name", partial.save, tmp_path / "f")

    odd_keys = bellhop.qjit(lambda tree: tree[2.5])
    odd_keys({2.5: 1.0})
    raises("the dictionary key 2.5 is a float", odd_keys.save, tmp_path / "f")


def test_a_structure_that_a_converted_loop_changes():
    @bellhop.qjit(autograph=True)
    def grows(n):
        values = (1.0,)
        for _ in range(n):
            values = (*values, 2.0)
        return values

    raises("changes the structure of", grows, 3, error=bellhop.AutoGraphError)
    raises("range takes at most 3", bellhop.qjit(_long_range, autograph=True), 3)


def _long_range(n):
    total = 0
    for i in range(n, n, n, n):
        total = total + i
    return total


def test_a_version_of_lightning_that_is_not_tested(monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda name: "9.9.0")
    check_version.cache_clear()
    try:
        raises("was tested with", check_version, "lightning.qubit", error=bellhop.CompileError)
    finally:
        check_version.cache_clear()


def _circuit(*gates, result=lambda: qml.expval(qml.Z(0)), **options):
    @qml.qnode(qml.device("lightning.qubit", wires=2), **options)
    def circuit(x):
        for gate in gates:
            gate(x)
        return result()

    return circuit


def test_circuits():
    by_pennylane = _circuit(lambda x: qml.ops.MidMeasure(0))
    raises("was created without bellhop.measure", bellhop.qjit(by_pennylane), 0.1)
    wrong_outcome = _circuit(lambda x: bellhop.measure(0, postselect=2))
    raises("expected postselect to be 0, 1 or", bellhop.qjit(wrong_outcome), 0.1)
    without_shots = _circuit(result=lambda: qml.sample(wires=0))
    raises("sample needs shots", bellhop.qjit(without_shots), 0.1, error=bellhop.CompileError)


def test_an_outcome_that_does_not_happen():
    impossible = _circuit(lambda x: bellhop.measure(0, postselect=1))
    # In every branch of the tree it has the weight zero: the result is 0 / 0, and no error.
    assert np.isnan(float(bellhop.qjit(impossible)(0.1)))


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@PYTORCH.mark
def test_torch_functions():
    import torch

    raises("expected tensors, numbers, or", bellhop.call_torch(lambda x: "text"), 1.0)
    half = bellhop.call_torch(lambda x: torch.zeros(2, dtype=torch.complex32))
    raises("JAX has no arrays of type", half, 1.0)
    needs_data = bellhop.call_torch(lambda x: torch.ones(int(x)))
    raises("inferred with tensors without data", needs_data, 1.0, error=bellhop.CompileError)
    module = bellhop.call_torch(torch.nn.Linear(1, 1))
    raises("expected some of ['weight', 'bias']", module.update, {"scale": 1.0}, error=ValueError)
