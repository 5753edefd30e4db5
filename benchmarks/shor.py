"""Shor's algorithm on 2 n + 3 qubits for numbers of n bits, all of it compiled.

Beauregard's circuit (arXiv:quant-ph/0205095), as PennyLane's demonstration of it has it: one qubit
is measured and reused for each bit of the phase, sums are phases in the Fourier basis, and which
sums are needed is found while the program runs.  Number and base are arguments of the program, so
all of that is loops and conditionals.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import pennylane as qml


def _bits(number: Any, n_bits: int) -> Any:
    """Return the bits of a number, the lowest first."""
    return (number >> jnp.arange(n_bits)) & 1


def _power(base: Any, exponent: Any, modulus: Any) -> Any:
    result = jnp.asarray(1, jnp.int64)
    square = jnp.asarray(base, jnp.int64)
    rest = jnp.asarray(exponent, jnp.int64)
    while rest > 0:
        if rest % 2 == 1:
            result = (result * square) % modulus
        square = (square * square) % modulus
        rest = rest // 2
    return result


def _inverse(number: Any, modulus: Any) -> Any:
    """Return the inverse modulo a number that is coprime, by Euclid's algorithm."""
    old, new = jnp.asarray(0, jnp.int64), jnp.asarray(1, jnp.int64)
    dividend, divisor = jnp.asarray(modulus, jnp.int64), jnp.asarray(number, jnp.int64)
    while divisor != 0:
        quotient = dividend // divisor
        old, new = new, old - quotient * new
        dividend, divisor = divisor, dividend - quotient * divisor
    if old < 0:
        old = old + modulus
    return old


def _order(phase: Any, largest: Any) -> Any:
    """Return the denominator of the last continued fraction of a phase that is small enough."""
    before, order = jnp.asarray(0, jnp.int64), jnp.asarray(1, jnp.int64)
    rest = jnp.asarray(phase, jnp.float64)
    while jnp.logical_and(rest > 1e-6, jnp.floor(1 / rest) * order + before < largest):
        whole = jnp.floor(1 / rest)
        before, order = order, jnp.asarray(whole, jnp.int64) * order + before
        rest = 1 / rest - whole
    return order


def _fourier(wires: Any) -> None:
    """Apply the Fourier transform, which leaves the wires in their order."""
    n_wires = len(wires)
    angles = 2 * jnp.pi / 2.0 ** jnp.arange(2, n_wires + 1)
    for i in range(n_wires):
        qml.Hadamard(wires[i])
        for j in range(n_wires - 1 - i):
            qml.ControlledPhaseShift(angles[j], wires=[wires[i + 1 + j], wires[i]])


def _add(number: Any, wires: Any) -> None:
    """Add a number to a register in the Fourier basis."""
    n_wires = len(wires)
    digits = _bits(number, n_wires)[::-1]
    halves = 1 / 2.0 ** jnp.arange(1, n_wires + 1)
    turns = jnp.array([jnp.dot(digits[i:], halves[: n_wires - i]) for i in range(n_wires)])
    for i in range(n_wires):
        if turns[i] != 0:
            qml.PhaseShift(2 * jnp.pi * turns[i], wires=wires[i])


def _add_modulo(modulus: Any, number: Any, controls: Any, wires: Any, spare: Any) -> None:
    """Add a number to a register modulo another, where both controls are set."""
    qml.ctrl(_add, control=controls)(number, wires)
    qml.adjoint(_add)(modulus, wires)
    # The first wire says whether that was too much; then it is added again.
    qml.adjoint(_fourier)(wires)
    qml.CNOT(wires=[wires[0], spare])
    _fourier(wires)
    qml.ctrl(_add, control=spare)(modulus, wires)
    # The spare qubit is set back.
    qml.adjoint(qml.ctrl(_add, control=controls))(number, wires)
    qml.adjoint(_fourier)(wires)
    qml.PauliX(wires=wires[0])
    qml.CNOT(wires=[wires[0], spare])
    qml.PauliX(wires=wires[0])
    _fourier(wires)
    qml.ctrl(_add, control=controls)(number, wires)


def _multiply(
    modulus: Any, factor: Any, control: Any, wires: Any, others: Any, used: Any, used_after: Any
) -> None:
    """Multiply a register by a factor modulo a number, where the control is set.

    The masks say which bits are set in any state of the register before and after.
    """
    n_bits = len(wires)
    spare, sums = others[-1], others[:-1]
    for i in range(n_bits):
        if used[n_bits - 1 - i] > 0:
            _add_modulo(
                modulus, (factor * 2**i) % modulus, [control, wires[n_bits - 1 - i]], sums, spare
            )
    qml.adjoint(_fourier)(sums)
    for i in range(n_bits):
        qml.CNOT(wires=[others[i + 1], wires[i]])
        qml.Toffoli(wires=[control, wires[i], others[i + 1]])
        qml.CNOT(wires=[others[i + 1], wires[i]])
    _fourier(sums)
    inverse = _inverse(factor, modulus)
    for i in range(n_bits):
        if used_after[i] > 0:
            qml.adjoint(_add_modulo)(
                modulus,
                (inverse * 2 ** (n_bits - 1 - i)) % modulus,
                [control, wires[i]],
                sums,
                spare,
            )


def shor(api: Any, n_bits: int) -> Any:
    """Return the compiled program of ``modulus`` and ``base``, whose result is two factors.

    They are zeros where the phase that was measured gives none.

    Args:
        api: bellhop or catalyst.
        n_bits: how many bits the number has that is factored.
    """
    counter = 0
    wires = jnp.arange(n_bits) + 1
    others = jnp.arange(n_bits + 2) + n_bits + 1
    n_digits = 2 * n_bits
    device = qml.device("lightning.qubit", wires=2 * n_bits + 3)

    @qml.qnode(device, shots=1)
    def phase(modulus: Any, base: Any) -> Any:
        """Return the digits of the phase, the lowest first."""
        digits = jnp.zeros(n_digits, jnp.int64)
        qml.PauliX(wires=wires[-1])
        # Of one, the product is a sum.
        factor = _power(base, 2 ** (n_digits - 1), modulus)
        used = _bits(factor, n_bits)[::-1]
        used = used.at[n_bits - 1].set(1)
        qml.Hadamard(wires=counter)
        _fourier(wires)
        qml.ctrl(_add, control=counter)(factor - 1, wires)
        qml.adjoint(_fourier)(wires)
        qml.Hadamard(wires=counter)
        digits = digits.at[0].set(api.measure(counter, reset=True))
        _fourier(others[:-1])
        for k in range(1, n_digits):
            step = 2 ** (n_digits - 1 - k)
            factor = _power(base, step, modulus)
            qml.Hadamard(wires=counter)
            if factor != 1:
                after = jnp.zeros(n_bits, jnp.int64)
                if not jnp.all(used):
                    for multiple in range(2**k):
                        state = _power(base, step * (2 * multiple + 1), modulus)
                        after = after | _bits(state, n_bits)[::-1]
                else:
                    after = used
                _multiply(modulus, factor, counter, wires, others, used, after)
                used = used | after
            turns = jnp.sum(
                jnp.where(
                    jnp.arange(n_digits) < k, digits / 2.0 ** (k + 1 - jnp.arange(n_digits)), 0.0
                )
            )
            qml.PhaseShift(-2 * jnp.pi * turns, wires=counter)
            qml.Hadamard(wires=counter)
            digits = digits.at[k].set(api.measure(counter, reset=True))
        qml.adjoint(_fourier)(others[:-1])
        return digits

    @api.qjit(autograph=True)
    def program(modulus: Any, base: Any) -> Any:
        digits = phase(modulus, base)
        order = _order(jnp.sum(digits / 2.0 ** jnp.arange(n_digits, 0, -1)), modulus)
        first, second = jnp.asarray(0, jnp.int64), jnp.asarray(0, jnp.int64)
        if order % 2 == 0:
            root = _power(base, order // 2, modulus)
            if jnp.logical_and(root != 1, root != modulus - 1):
                first = jnp.gcd(root - 1, modulus)
                second = jnp.gcd(root + 1, modulus)
        return jnp.array([first, second])

    return program
