"""Circuits in programs of JAX for other platforms, seen in what they are lowered to."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

X = np.array([0.3, 0.4])


@bellhop.qjit
@qml.qnode(qml.device("lightning.qubit", wires=2))
def circuit(x):
    for layer in range(3):
        qml.RX(x[0] + layer, 0)
        qml.CNOT([0, 1])
        qml.RY(x[1], 1)
    return qml.expval(qml.Z(1))


class Client:
    """What JAX asks a client of another platform for while it lowers: only that of a TPU."""

    def make_python_callback_from_host_send_and_recv(self, function, *types):
        assert callable(function)
        return function


@pytest.fixture(autouse=True)
def _lowers_for_others(monkeypatch):
    monkeypatch.setattr(jax.interpreters.mlir.ModuleContext, "get_backend", lambda self: Client())


def calls(function, platform, *args):
    """Return the lines of a lowered module that call the host."""
    text = jax.jit(function).trace(*args).lower(lowering_platforms=(platform,)).as_text()
    assert "bellhop" not in text
    name = "stablehlo.send" if platform == "tpu" else "@xla_ffi_python_gpu_callback"
    return [line for line in text.splitlines() if name in line]


@pytest.mark.parametrize("platform", ["cuda", "rocm", "tpu"])
@pytest.mark.parametrize(
    "function",
    [
        circuit,
        jax.grad(circuit),
        bellhop.grad(circuit),
        jax.vmap(circuit, in_axes=None, axis_size=2),
    ],
    ids=["value", "jax.grad", "bellhop.grad", "vmap"],
)
def test_circuit_is_one_call_to_the_host(platform, function):
    assert len(calls(function, platform, X)) == 1


def test_equal_circuits_are_compiled_once(monkeypatch):
    made = []
    module = __import__("bellhop.compiler.lower_in_jax_jit", fromlist=["_compile_host_call"])
    original = module._compile_host_call
    monkeypatch.setattr(
        module, "_compile_host_call", lambda *args: made.append(args) or original(*args)
    )

    def program(x):
        return jax.lax.fori_loop(0, 2, lambda i, y: y + circuit(x), circuit(x) * jnp.sum(x))

    assert len(calls(program, "cuda", X)) == 2
    assert len(made) <= 2


def test_samples_are_an_effect():
    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=1), shots=8)
    def sampled():
        qml.Hadamard(0)
        return qml.sample(wires=0)

    # Nor are two calls merged, nor one dropped whose result nobody uses.
    lines = calls(lambda: (sampled(), sampled())[:1], "cuda")
    assert all("has_side_effect = true" in line for line in lines)
    assert len(lines) == 2


def test_export_is_refused_by_name():
    with pytest.raises(NotImplementedError, match="jax.export of a program"):
        jax.export.export(jax.jit(circuit), platforms=("cuda",))(X)
