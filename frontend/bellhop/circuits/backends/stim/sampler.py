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
from jax.core import ShapedArray

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
    """Add a callback to the program that samples a Stim program.

    Args:
        steps: the lines of the Stim program, with the placeholder ``$i`` for operand ``i``. A
            conditional is a list of its index's placeholder and its branches.
        n_outcomes: the number of outcomes of a shot, mid-circuit and final.
        key: ``jax.random`` key that seeds Stim.
        operands: traced scalars that replace the placeholders.
        where: the QNode's name and line, for errors.

    Returns:
        uint8 ``[shots, ceil(n_outcomes / 8)]``, the outcomes of all shots, eight per byte.
    """
    result = jax.ShapeDtypeStruct((shots, -(-n_outcomes // 8)), np.uint8)
    call = PureCallback(StimSampler(where, json.dumps(list(steps)), str(shots)), result)
    return call(jax.random.key_data(key), *operands)


def read_bits(packed: Any, places: Any) -> Any:
    """Extract outcomes from bytes with eight outcomes each.

    Outcome 11 is bit 3 of byte 1.

    Args:
        packed: uint8 ``[..., bytes]``.
        places: integer scalar or vector, the indices of the outcomes.

    Returns:
        uint8 ``[..., *places.shape]`` of zeros and ones.
    """
    return (packed[..., places >> 3] >> jnp.asarray(places & 7, jnp.uint8)) & 1


class StimSampler(BuiltinFunction):
    """Python function of the callback that samples a Stim program at run time.

    Its static arguments, in ``self.arguments``, are the QNode's name and line, the steps of the
    program as JSON, and the number of shots. A step is a line, or a conditional with the steps of
    its branches.
    """

    __name__ = "stim_sampler"
    is_of_circuit = True
    kinds = ("pure",)

    @staticmethod
    def check_init_args(where: str, steps: str, shots: str) -> None:  # type: ignore[override]
        """Check the sampler's static arguments: the steps as JSON, and the number of shots.

        Raises:
            ValueError: if `steps` is not JSON of nested lists of lines, or `shots` is not a number.
        """
        del where
        int(shots)
        _check_steps(json.loads(steps))

    def accepts_types(
        self, arguments: Sequence[ShapedArray], results: Sequence[ShapedArray]
    ) -> bool:
        """Return whether a call has the right types.

        The arguments must be a key (uint32 ``[2]``) and scalars, and the result uint8 ``[shots,
        bytes]``.
        """
        types = [(x.shape, x.dtype) for x in arguments]
        is_valid = types[:1] == [((2,), np.dtype(np.uint32))] and len(results) == 1
        if not is_valid or any(shape for shape, _ in types[1:]) or results[0].dtype != np.uint8:
            return False
        return results[0].ndim == 2 and results[0].shape[0] == int(self.arguments[2])

    def __call__(self, key: np.ndarray, *operands: np.ndarray) -> np.ndarray:
        """Sample the Stim program, with the values of its operands.

        Args:
            key: uint32 ``[2]``, the data of a ``jax.random`` key.
            operands: scalars that replace the placeholders ``$i`` in the program.

        Returns:
            uint8 ``[shots, bytes]``, the outcomes of all shots, eight per byte.

        Raises:
            CircuitError: if Stim rejects the program with the operands' values, such as a
                probability above one.
        """
        where, steps, shots = self.arguments
        values = [operand.item() for operand in operands]
        try:
            circuit, reference = _parse_program(_render_program(json.loads(steps), values))
        except ValueError as error:
            raise CircuitError(
                f"{where}: expected traced parameters that Stim accepts, got {values}. Correct "
                f"these parameters. Stim raised: {error}"
            ) from None
        high, low = map(int, key)
        sampler = circuit.compile_sampler(seed=high << 32 | low, reference_sample=reference)
        return sampler.sample(int(shots), bit_packed=True)


def _check_steps(steps: Any) -> None:
    """Raise a ValueError unless parsed JSON is a list of steps of a Stim program.

    A step is a line, or a conditional ``[operand, branches]``, whose branches are lists of steps.
    """
    for step in steps if type(steps) is list else [steps]:
        match step:
            case str() if type(steps) is list:
                continue
            case [str(), [_, *_] as branches]:
                for branch in branches:
                    _check_steps(branch)
            case _:
                raise ValueError(
                    f"StimSampler: a step of the Stim program is {str(step)[:99]}, expected a line "
                    "of text or a conditional, [operand, branches]. Pass a list of such steps."
                )


def _render_program(steps: Sequence[Step], values: Sequence[Any]) -> str:
    """Return a Stim program as text, with concrete values of its operands.

    Args:
        steps: the lines of the program and its conditionals, each of which becomes the lines of the
            chosen branch.
        values: the value of each operand, by the number of its placeholder.
    """
    lines = [
        _substitute_placeholders(step, values)
        if isinstance(step, str)
        else _render_branch(step, values)
        for step in steps
    ]
    return "\n".join(lines)


def _substitute_placeholders(line: str, values: Sequence[Any]) -> str:
    """Replace each placeholder ``$i`` in a line of a Stim program by ``values[i]``."""
    text, *pieces = line.split("$")
    for piece in pieces:
        n_digits = len(piece) - len(piece.lstrip("0123456789"))
        text += f"{values[int(piece[:n_digits])]}{piece[n_digits:]}"
    return text


def _render_branch(step: list[Any], values: Sequence[Any]) -> str:
    """Return the lines of the branch that a conditional's index chooses, as text.

    Args:
        step: the placeholder of the index, and the branches.
        values: the value of each operand, by the number of its placeholder.
    """
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
