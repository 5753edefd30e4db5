"""A linear system whose operator only Python knows, and its gradient.

Conjugate gradients solve ``A x = b`` in a fixed number of iterations, and ``x @ b`` is
differentiated with respect to ``b``. ``A`` multiplies by a kernel in Fourier space, with NumPy's
FFT, and is symmetric. JAX solves the same system with a `jax.pure_callback`, which works because
no derivative of the callback itself is needed: `cg` differentiates the solution. Catalyst has no
callback under `cg`.

Limit: the calls of NumPy that both solutions need, from a Python loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.case import LIMIT, Case, Program, synchronous

SIZE = 1024
ITERATIONS = 20
# Conjugate gradients apply the operator once before the first iteration, and the gradient needs a
# second solution.
CALLS = 2 * (ITERATIONS + 1)


def _make_operator() -> Callable[[Any], np.ndarray]:
    """Return ``1 + laplacian``, periodic, by FFT; its eigenvalues lie between 1 and 5."""
    frequencies = np.fft.rfftfreq(SIZE)
    eigenvalues = 1 + (2 - 2 * np.cos(2 * np.pi * frequencies))

    def apply(u: Any) -> np.ndarray:
        return np.fft.irfft(eigenvalues * np.fft.rfft(np.asarray(u)), SIZE)

    return apply


def _right_hand_side() -> np.ndarray:
    return np.cos(np.arange(SIZE) / 7.0)


def _gradient(operator: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the gradient of ``x @ b`` with respect to ``b``, where ``x`` solves the system."""
    import jax

    def energy(b: Any) -> Any:
        x, _ = jax.scipy.sparse.linalg.cg(operator, b, tol=0.0, maxiter=ITERATIONS)
        return x @ b

    return jax.grad(energy)


def _bellhop() -> Program:
    """Return the gradient with a linear callback."""
    import jax
    import jax.numpy as jnp

    import bellhop

    vector = jax.ShapeDtypeStruct((SIZE,), "float64")
    operator = bellhop.pure_callback(_make_operator(), vector).transpose(symmetric=True)
    return synchronous(bellhop.qjit(_gradient(operator)), jnp.asarray(_right_hand_side()))


def _jax() -> Program:
    """Return the gradient with ``jax.pure_callback``."""
    import jax

    vector = jax.ShapeDtypeStruct((SIZE,), "float64")
    apply = _make_operator()
    program = jax.jit(_gradient(lambda u: jax.pure_callback(apply, vector, u)))
    return synchronous(program, jax.numpy.asarray(_right_hand_side()))


def _limit() -> Program:
    """Return the calls of the operator alone."""
    apply, b = _make_operator(), _right_hand_side()

    def run() -> None:
        for _ in range(CALLS):
            apply(b)

    return Program(run, comparable=False, compiles=False)


def _expected() -> np.ndarray:
    """Return ``2 A^-1 b``, the gradient for a symmetric operator, from a dense matrix."""
    apply = _make_operator()
    matrix = np.stack([apply(row) for row in np.eye(SIZE)])
    return 2 * np.linalg.solve(matrix, _right_hand_side())


CASES = [
    Case(
        name="linear-operator-grad",
        title=f"gradient of cg, {ITERATIONS} iterations, operator in Python",
        limit="the operator's calls of NumPy",
        builders={"bellhop": _bellhop, "jax": _jax, LIMIT: _limit},
        unavailable={"catalyst": "no callback under cg"},
        expected=_expected,
        tolerance=1e-6,
    ),
]
