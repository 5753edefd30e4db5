"""Minimise a compiled circuit with SciPy, and call SciPy from a compiled program."""

import jax.numpy as jnp
import numpy as np
import pennylane as qml
import scipy.optimize
import scipy.special

import bellhop


@bellhop.pure_callback
def gamma(x) -> float:
    return scipy.special.gamma(x)


@gamma.jvp
def gamma_jvp(primals, tangents):
    digamma = bellhop.pure_callback(scipy.special.digamma, float)
    return gamma(*primals), gamma(*primals) * digamma(*primals) * tangents[0]


@qml.qnode(qml.device("lightning.qubit", wires=2))
def circuit(angles):
    qml.RY(angles[0], wires=0)
    qml.CNOT(wires=[0, 1])
    qml.RY(angles[1], wires=1)
    return qml.expval(qml.Z(1))


@bellhop.qjit
@bellhop.value_and_grad
def loss(x):
    return circuit(jnp.array([gamma(x[0]), x[1]]))


# `jac=True`: the program returns the value and the gradient in one call.
found = scipy.optimize.minimize(loss, x0=np.array([2.5, 0.3]), jac=True, method="BFGS")
print(f"minimum {found.fun:.6f}")
