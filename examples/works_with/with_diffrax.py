"""Integrate an ordinary differential equation whose right-hand side is a circuit."""

import diffrax
import jax
import jax.numpy as jnp
import pennylane as qml

import bellhop


@qml.qnode(qml.device("lightning.qubit", wires=1))
def force(y):
    qml.RY(y, wires=0)
    return qml.expval(qml.X(0))  # sin(y)


@bellhop.qjit
def pendulum(angle):
    """Return the angle of a pendulum after one unit of time."""
    term = diffrax.ODETerm(lambda t, y, args: jnp.array([y[1], -force(y[0])]))
    solution = diffrax.diffeqsolve(
        term,
        diffrax.Tsit5(),
        t0=0.0,
        t1=1.0,
        dt0=0.01,
        y0=jnp.array([angle, 0.0]),
        stepsize_controller=diffrax.PIDController(rtol=1e-8, atol=1e-8),
    )
    return solution.ys[-1, 0]


value, slope = bellhop.qjit(jax.value_and_grad(pendulum))(0.5)
difference = (pendulum(0.5 + 1e-5) - pendulum(0.5 - 1e-5)) / 2e-5
print(f"angle {value:.6f}, slope {slope:.6f}, by differences {difference:.6f}")
