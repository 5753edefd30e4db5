"""The call of Stim that a program makes, and what it returns.

Outcomes come as Stim packs them, the outcome with number 11 of a shot in bit 3 of its byte 1: that
is four times as fast as a byte for each, and the program takes out those that are used.
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

# A line of Stim's; or an operand that is the number of a branch, and the branches.
Step = str | list[Any]


def sample_program(
    steps: Sequence[Step],
    n_outcomes: int,
    shots: int,
    key: Any,
    operands: Sequence[Any],
    where: str,
) -> Any:
    """Return the packed outcomes of all shots, a row for each.

    Args:
        steps: of the program, in which ``$0`` stands for the first operand.
        n_outcomes: how many a shot has.
        shots: how many there are.
        key: for random numbers.
        operands: numbers of the program.
        where: the QNode, for errors.
    """
    result = jax.ShapeDtypeStruct((shots, -(-n_outcomes // 8)), np.uint8)
    call = PureCallback(StimSampler(where, json.dumps(list(steps)), str(shots)), result)
    return call(jax.random.key_data(key), *operands)


def read_bits(packed: Any, places: Any) -> Any:
    """Return outcomes by their numbers, of one shot or of a row for each."""
    return (packed[..., places >> 3] >> jnp.asarray(places & 7, jnp.uint8)) & 1


class StimSampler(BuiltinFunction):
    """Samples a program; it is made of the QNode, the program as JSON, and the number of shots."""

    __name__ = "stim_sampler"
    is_of_circuit = True

    def __call__(self, key: np.ndarray, *operands: np.ndarray) -> np.ndarray:
        """Sample it with the values of operands."""
        where, steps, shots = self.arguments
        values = [operand.item() for operand in operands]
        try:
            circuit, reference = _parse_program(_render_program(json.loads(steps), values))
        except ValueError as error:
            raise CircuitError(f"{where}: Stim refuses a number of the program: {error}") from None
        high, low = map(int, key)
        sampler = circuit.compile_sampler(seed=high << 32 | low, reference_sample=reference)
        return sampler.sample(int(shots), bit_packed=True)


def _render_program(steps: Sequence[Step], values: Sequence[Any]) -> str:
    lines = [
        _substitute_placeholders(step, values)
        if isinstance(step, str)
        else _render_branch(step, values)
        for step in steps
    ]
    return "\n".join(lines)


def _substitute_placeholders(line: str, values: Sequence[Any]) -> str:
    first, *others = line.split("$")
    for other in others:
        digits = len(other) - len(other.lstrip("0123456789"))
        first += f"{values[int(other[:digits])]}{other[digits:]}"
    return first


def _render_branch(step: list[Any], values: Sequence[Any]) -> str:
    operand, branches = step
    # As a conditional of JAX's does with a number out of range.
    number = min(max(int(_substitute_placeholders(operand, values)), 0), len(branches) - 1)
    return _render_program(branches[number], values)


@functools.lru_cache(64)
def _parse_program(text: str) -> tuple[Any, np.ndarray]:
    """Return a circuit, and one sample without noise, which sampling starts from."""
    circuit = import_stim().Circuit(text)
    return circuit, circuit.reference_sample()
