"""PennyLane's optimizers: an error for traced arguments, unchanged for others."""

import numpy as np
import pennylane as qml
import pytest
from pennylane import numpy as pnp

import bellhop
from bellhop._pennylane.patches.optimizer_steps import _FOR_PROGRAMS

# A step of `RiemannianGradientOptimizer` takes no arguments.
NAMES = sorted({*qml.optimize.__all__} - {*_FOR_PROGRAMS, "RiemannianGradientOptimizer"})


@qml.qnode(qml.device("lightning.qubit", wires=1))
def circuit(x):
    qml.RX(x, 0)
    return qml.expval(qml.Z(0))


def _call_in_program(use_optimizer, **options):
    """Trace a function of an optimizer and a traced value, which must raise an error."""
    with pytest.raises(bellhop.CompileError, match="change only arguments with requires_grad") as e:
        bellhop.qjit(use_optimizer, **options)(pnp.array(0.3, requires_grad=True))
    return str(e.value)


@pytest.mark.parametrize(
    "use",
    [
        lambda opt, x: opt.step(circuit, x),
        lambda opt, x: opt.step(circuit, x, grad_fn=bellhop.grad(circuit)),
        lambda opt, x: opt.step_and_cost(lambda q: circuit(q[0]), [x]),
        lambda opt, x: opt.apply_grad((0.1,), (x,)),
        lambda opt, x: opt.compute_grad(circuit, (x,), {}),
        lambda opt, x: bellhop.for_loop(0, 3)(lambda i, x: opt.step(circuit, x))(x),
    ],
)
def test_optimizer_rejects_traced_values(use):
    message = _call_in_program(lambda x: use(qml.GradientDescentOptimizer(0.1), x))
    assert message.startswith(__file__)
    assert "optax" in message


@pytest.mark.filterwarnings("ignore:the for loop")
def test_autograph_does_not_hide_the_optimizer():
    def train(x):
        opt = qml.AdamOptimizer(0.1)
        for _ in range(3):
            x = opt.step(circuit, x)
        return x

    assert f"{__file__}:" in (message := _call_in_program(train, autograph=True))
    assert "AdamOptimizer.step is traced" in message


@pytest.mark.parametrize("name", NAMES)
def test_step_of_every_optimizer_is_checked(name):
    optimizer = getattr(qml.optimize, name)
    # The check precedes the step, which needs no optimizer that is set up.
    _call_in_program(lambda x: optimizer.step(object.__new__(optimizer), circuit, x, ["X"]))


def test_optimizer_of_constants_runs_while_tracing():
    def step():
        return qml.GradientDescentOptimizer(0.1).step(circuit, pnp.array(0.3, requires_grad=True))

    expected = 0.3 + 0.1 * np.sin(0.3)
    assert np.allclose(bellhop.qjit(step)(), expected)
    opt, x = qml.GradientDescentOptimizer(0.1), pnp.array(0.3, requires_grad=True)
    assert np.allclose(opt.step(bellhop.qjit(circuit), x), expected)


def test_optimizer_of_several_constants_needs_their_gradients():
    """In a program, ``qml.grad`` differentiates the first argument only."""

    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def rotated(x, y):
        qml.RX(x[0] + 2 * y[0], 0)
        return qml.expval(qml.Z(0))

    def step(**options):
        constants = (pnp.array([value], requires_grad=True) for value in (0.3, 0.5))
        return qml.GradientDescentOptimizer(0.1).step(rotated, *constants, **options)

    with pytest.raises(bellhop.CompileError, match="trains 2 arguments while a program is"):
        bellhop.qjit(step)()
    program = bellhop.qjit(lambda: step(grad_fn=bellhop.grad(rotated, argnums=[0, 1])))
    np.testing.assert_allclose(program(), step())


def test_note_of_autograd_names_the_users_line():
    program = bellhop.qjit(lambda x: pnp.mean([x, 2 * x]))
    with pytest.raises(Exception, match="TracerArrayConversionError") as e:
        program(0.3)
    note = "\n".join(e.value.__notes__)
    assert f"at {__file__}:" in note
    assert "qml.math" in note


def test_swapped_decorators_are_named():
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    @bellhop.qjit
    def swapped(x):
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    with pytest.raises(bellhop.CompileError, match="Swap the decorators") as e:
        swapped(0.3)
    assert "put the decorator @qml.qnode(device) above it" not in str(e.value)
