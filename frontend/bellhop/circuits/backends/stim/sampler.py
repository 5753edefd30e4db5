"""``StimSampler``: the callback that samples a Stim program at run time.

Outcomes are bit-packed: outcome 11 of a shot is bit 3 of its byte 1.  This is four times as fast as
one byte per outcome; the compiled program extracts the outcomes that it uses.
"""

import functools
import json
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.callbacks.pure_callback import PureCallback
from bellhop.circuits.backends.stim.stim_gates import import_stim
from bellhop.compiler.builtin_function import BuiltinFunction
from bellhop.errors import CircuitError

# A line of a Stim program; or, for a conditional, the placeholder of its index and its branches.
Step = str | list[Any]


def sample_program(
    steps: Sequence[Step],
    n_outcomes: int,
    shots: int,
    key: Any,
    operands: Sequence[Any],
    where: str,
) -> Any:
    """Sample a Stim program in a callback.

    Args:
        steps: the steps of the program, with the placeholder ``$i`` for operand ``i``.
        n_outcomes: the number of outcomes of a shot.
        shots: the number of shots.
        key: ``jax.random`` key that seeds Stim.
        operands: traced scalars that replace the placeholders.
        where: the QNode, for errors.

    Returns:
        uint8 ``[shots, ceil(n_outcomes / 8)]``, the bit-packed outcomes.
    """
    result = jax.ShapeDtypeStruct((shots, -(-n_outcomes // 8)), np.uint8)
    call = PureCallback(StimSampler(where, json.dumps(list(steps)), str(shots)), result)
    return call(jax.random.key_data(key), *operands)


def read_bits(packed: Any, places: Any) -> Any:
    """Extract outcomes from bit-packed records.

    Args:
        packed: uint8 ``[..., bytes]``.
        places: integer scalar or vector, the indices of the outcomes.

    Returns:
        uint8 ``[..., *places.shape]`` of zeros and ones.
    """
    return (packed[..., places >> 3] >> jnp.asarray(places & 7, jnp.uint8)) & 1


class StimSampler(BuiltinFunction):
    """Host function that samples a Stim program.

    Its static arguments are the QNode, the steps as JSON and the number of shots.
    """

    __name__ = "stim_sampler"
    is_of_circuit = True

    def __call__(self, key: np.ndarray, *operands: np.ndarray) -> np.ndarray:
        """Sample the program.

        Args:
            key: uint32 ``[2]``, the data of a ``jax.random`` key.
            operands: scalars that replace the placeholders.

        Returns:
            uint8 ``[shots, bytes]``, the bit-packed outcomes.
        """
        where, steps, shots = self.arguments
        values = [operand.item() for operand in operands]
        try:
            circuit, reference = _parse_program(_render_program(json.loads(steps), values))
        except ValueError as error:
            raise CircuitError(f"{where}: Stim rejected a runtime parameter: {error}") from None
        high, low = map(int, key)
        sampler = circuit.compile_sampler(seed=high << 32 | low, reference_sample=reference)
        return sampler.sample(int(shots), bit_packed=True)


def _render_program(steps: Sequence[Step], values: Sequence[Any]) -> str:
    """Return the text of a Stim program for the values of its operands."""
    lines = [
        _substitute_placeholders(step, values)
        if isinstance(step, str)
        else _render_branch(step, values)
        for step in steps
    ]
    return "\n".join(lines)


def _substitute_placeholders(line: str, values: Sequence[Any]) -> str:
    """Replace each placeholder ``$i`` in a line by ``values[i]``."""
    text, *pieces = line.split("$")
    for piece in pieces:
        n_digits = len(piece) - len(piece.lstrip("0123456789"))
        text += f"{values[int(piece[:n_digits])]}{piece[n_digits:]}"
    return text


def _render_branch(step: list[Any], values: Sequence[Any]) -> str:
    operand, branches = step
    # Clamp the index, as `jax.lax.switch` does.
    number = min(max(int(_substitute_placeholders(operand, values)), 0), len(branches) - 1)
    return _render_program(branches[number], values)


@functools.lru_cache(64)
def _parse_program(text: str) -> tuple[Any, np.ndarray]:
    """Parse a Stim program; return the circuit and its noiseless reference sample.

    Cached, since the reference sample is the slowest part of a call.
    """
    circuit = import_stim().Circuit(text)
    return circuit, circuit.reference_sample()
