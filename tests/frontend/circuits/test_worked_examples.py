"""The examples at the top of modules have the primitives, in order, of what really is traced."""

import functools
import importlib
import re

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop
from bellhop.circuits.backends.compiled.differentiable.circuit_primitive import CircuitBody
from bellhop.circuits.backends.compiled.differentiable.outcome_tree import run_all_outcomes
from bellhop.circuits.backends.compiled.differentiable.score_function import bind_score
from bellhop.circuits.backends.compiled.record.loop_precompute import consume_iterations
from bellhop.circuits.ir.vectorize.stack_scalars import stack_scalars
from bellhop.circuits.ir.vectorize.static_gather import gather_static
from bellhop.jaxprs.equations import inner_jaxprs
from bellhop.transformations.inline_trace import trace_inline

_PRIMITIVE = re.compile(
    r"\b(?:quantum_call\[operation=\w+"
    r"|(?:quantum_\w+|bellhop_linear_map|while|scan|cond|pack|pick)(?=[\[ ]))"
)
_DEVICE = qml.device("lightning.qubit", wires=4)
_HANDLE = jnp.zeros(2, jnp.uint32)


def _circuit(gates):
    @qml.qnode(_DEVICE)
    def circuit(*args):
        gates(*args)
        return qml.expval(qml.Z(0))

    return circuit


@_circuit
def straight(x):
    qml.RX(2 * x, 0)
    qml.RY(0.5, 0)


@_circuit
def long_loop(x):
    bellhop.for_loop(0, 1000)(lambda i: qml.RX(x * i, 0))()


@_circuit
def printing_loop(x):
    def body(i):
        bellhop.debug.print("{}", i)
        qml.RX(x * i, 0)

    bellhop.for_loop(0, 1000)(body)()


@_circuit
def conditional(x):
    bellhop.cond(x > 0, lambda: qml.RX(x, 0), lambda: qml.X(0))()


@_circuit
def dynamic_loop(x, n):
    bellhop.for_loop(0, n)(lambda i: qml.RX(x * i, 0))()


@qml.qnode(_DEVICE)
def probabilities(x):
    qml.RX(2 * x, 0)
    return qml.probs()


@_circuit
def branching(x):
    qml.RX(x, 0)
    m = bellhop.measure(0)
    qml.RY(m * x, 1)


def all_runs(state, x):
    once = jax.make_jaxpr(lambda state, x: (state, x))(state, x)
    return jax.extend.core.jaxpr_as_fun(run_all_outcomes(once))(state, x)


@functools.partial(qml.set_shots, shots=10)
@_circuit
def postselecting(x):
    qml.RX(x, 0)
    bellhop.measure(0, postselect=0)


@qml.qnode(_DEVICE, diff_method="parameter-shift")
def two_loops(x, n):
    qml.RY(x, 1)
    bellhop.for_loop(0, n)(lambda i: qml.RX(x * i, 0))()
    return qml.expval(qml.Z(0))


def moved(x, n):
    return jax.jvp(lambda x: two_loops(x, n), (x,), (1.0,))


def score(state, params, perturbation):
    return bind_score(state, params, jnp.zeros(0), perturbation, None)[1]


def moved_score(state, params, perturbation):
    return jax.jvp(functools.partial(score, state), (params, perturbation), (params, perturbation))


def in_blocks(x, n):
    use = lambda state, values, count: state + jnp.sum(values) + count
    return consume_iterations(lambda _, i: ((), x * i), (), n, use, 0.0)


def along(x, v):
    return jax.jvp(jax.grad(straight), (x,), (v,))[1]


def loss(x):
    return jnp.sum(jnp.sin(probabilities(x)))


def picked(x):
    return gather_static(x, np.array([2, 0, 2]))


def unpicked(y):
    return jax.linear_transpose(picked, jnp.arange(3.0))(y)


_EXAMPLES = {
    "circuits.backends.compiled.record.recorded_gates": [(straight, 0.3)],
    "circuits.backends.compiled.record.runtime_circuit": [
        (long_loop, 0.3),
        (printing_loop, 0.3),
        (conditional, 0.3),
    ],
    "circuits.backends.compiled.differentiable.circuit_primitive": [
        (straight, 0.3),
        (jax.grad(straight), 0.3),
    ],
    "circuits.backends.compiled.differentiable.batch": [(jax.vmap(straight), jnp.arange(3.0))],
    "circuits.backends.compiled.differentiable.linearize_rule": [
        (jax.grad(loss), 0.3),
        (along, 0.3, 1.0),
    ],
    "circuits.backends.compiled.differentiable.outcome_tree": [
        (branching, 0.3),
        (all_runs, _HANDLE, 0.3),
    ],
    "circuits.backends.compiled.outcomes.sampled_execution": [(postselecting, 0.3)],
    "circuits.backends.compiled.differentiable.jvp_rules": [(moved, 0.3, 5)],
    "circuits.backends.compiled.differentiable.score_function": [
        (score, _HANDLE, jnp.ones(2), 0.0),
        (moved_score, _HANDLE, jnp.ones(2), 0.0),
    ],
    "circuits.backends.compiled.record.loop_precompute": [(in_blocks, 0.3, 5)],
    "circuits.backends.compiled.differentiable.dynamic_count": [(dynamic_loop, 0.3, 5)],
    "circuits.ir.vectorize.stack_scalars": [
        (lambda *numbers: stack_scalars(numbers), 1.0, 2.0, 3.0)
    ],
    "circuits.ir.vectorize.static_gather": [(picked, jnp.arange(3.0)), (unpicked, jnp.arange(3.0))],
}


def _shown(module):
    doc = importlib.import_module(f"bellhop.{module}").__doc__
    indented = "\n".join(line for line in doc.splitlines() if line.startswith("    "))
    return _PRIMITIVE.findall(indented)


def _primitives(jaxpr):
    for eqn in jaxpr.eqns:
        name, operation = eqn.primitive.name, eqn.params.get("operation")
        yield f"{name}[operation={operation}" if operation else name
        body = eqn.params.get("body")
        bodies = [body.closed.jaxpr] if isinstance(body, CircuitBody) else inner_jaxprs(eqn)
        for inner in bodies:
            yield from _primitives(inner)


@pytest.mark.parametrize("module", _EXAMPLES)
def test_examples_of_modules(module):
    shown = _shown(module)
    found = [
        name
        for function, *args in _EXAMPLES[module]
        for name in _primitives(jax.make_jaxpr(trace_inline(function))(*args).jaxpr)
    ]
    # What an example leaves out, it leaves out everywhere.
    assert shown
    assert [name for name in found if name in shown] == shown
