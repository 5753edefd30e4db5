"""Three short programs: a SciPy callback, an accelerated FFT, and a derivative through both.

Run with ``python examples/callbacks_and_gpus.py``.
"""

import jax
import jax.numpy as jnp
import numpy as np
import scipy as sp

import bellhop


@bellhop.pure_callback
def simpson(x, y) -> float:
    return sp.integrate.simpson(y, x=x)


@bellhop.qjit
def integrate_xsq(a, b):
    x = jnp.linspace(a, b, 100)
    return simpson(x, x**2)


@bellhop.qjit
def sum_of_fft(x):
    y = bellhop.accelerate(jnp.fft.fft)(jnp.sin(x))
    return jnp.sum(y)


@bellhop.qjit
@bellhop.grad
def grad_of_expm(x):
    expm = bellhop.accelerate(jax.scipy.linalg.expm)
    return jnp.sum(expm(jnp.sin(x)) ** 2)


def main():
    print("integral of x^2 over [-1, 1]:", repr(integrate_xsq(-1, 1)))
    print("integral of x^2 over [-1, 2]:", repr(integrate_xsq(-1, 2)))
    print("sum of fft(sin(x)):", repr(sum_of_fft(np.array([1.0, 2.0, 1.0, -1.0, 1.5]))))
    print("gradient through expm:", repr(grad_of_expm(jnp.array([[0.1, 0.2], [0.3, 0.4]]))))


if __name__ == "__main__":
    main()
