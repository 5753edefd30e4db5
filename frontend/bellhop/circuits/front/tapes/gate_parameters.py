"""The Jacobian of gate parameters with respect to QNode arguments.

PennyLane's gradient transforms (``qml.gradients.param_shift``, ``qml.metric_tensor``) differentiate
with respect to gate parameters, and multiply by this classical Jacobian.  PennyLane reads it from a
``CotransformCache``; ``GateParameters`` has the same methods and computes it with JAX.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml
from pennylane.transforms.core import CompilePipeline

from bellhop.errors import CompileError
from bellhop.jaxprs.equations import find_dependents

TapeRecorder = Callable[..., qml.tape.QuantumScript]


class GateParameters:
    """The classical Jacobian of a circuit's gate parameters, computed with JAX.

    It replaces PennyLane's ``CotransformCache`` while the transforms of one QNode call are applied,
    and has the same methods.

    Args:
        record: returns the tape of the circuit for positional arguments of the QNode.
        args: the positional arguments, arrays.
        pipeline: the transforms of the circuit. The option ``argnums`` of the last transform
            selects the arguments of the Jacobian; by default, it is the first argument.
        where: the QNode's name and line, for error messages.
    """

    def __init__(
        self, record: TapeRecorder, args: Sequence[Any], pipeline: CompilePipeline, where: str
    ) -> None:
        self._record = record
        self._args = args
        self._pipeline = pipeline
        self._where = where
        argnums = pipeline[-1].kwargs.get("argnums")
        self._argnums = 0 if argnums is None else argnums

    def get_argnums(self, transform: Any) -> list[set[int]] | None:
        """Find the gate parameters that depend on the QNode arguments ``argnums``.

        PennyLane's gradient transforms call this method to know which parameters are trainable.

        Args:
            transform: the gradient transform, one of the pipeline.

        Returns:
            a set of parameter indices for each tape that the transform gets; None if the transform
            does not use them.

        Raises:
            CompileError: if ``argnums`` is out of range, or no parameter depends on the arguments.
        """
        if not (transform._use_argnum or transform.classical_cotransform):
            return None
        return self._find_dependent_params(self._get_preceding_transforms(transform))

    def get_classical_jacobian(self, transform: Any, tape_index: int) -> Any:
        """Compute the Jacobian of a tape's gate parameters with respect to QNode arguments.

        Only the parameters that depend on the arguments ``argnums`` are differentiated.

        Args:
            transform: the gradient transform, one of the pipeline.
            tape_index: the index of the tape among the tapes that the transform gets.

        Returns:
            array ``[parameters, *argument shape]`` with a row for each of these parameters; a tuple
            of arrays if ``argnums`` is a sequence. None if the transform does not use the Jacobian.

        Raises:
            CompileError: if a parameter is an array, if ``argnums`` is out of range, or if no
                parameter depends on the arguments.
        """
        if not transform.classical_cotransform:
            return None
        before = self._get_preceding_transforms(transform)
        numbers = sorted(self._find_dependent_params(before)[tape_index])

        def parameters(*args: Any) -> Any:
            """Record the tape, and return a vector of its parameters that depend on arguments.

            ``jax.jacobian`` differentiates this function of the QNode's positional arguments.
            """
            values = _list_tape_parameters(before, self._record(*args))[tape_index]
            chosen = [jnp.asarray(values[number]) for number in numbers]
            for value in chosen:
                if value.ndim:
                    raise CompileError(
                        f"{self._where}: a gradient transform differentiates with respect to a "
                        f"gate parameter of shape {value.shape}, expected a number. Use gates with "
                        "angles, or bellhop.jacobian of the QNode."
                    )
            return jnp.stack(chosen)

        return jax.jacobian(parameters, argnums=self._argnums)(*self._args)

    def _get_preceding_transforms(self, transform: Any) -> CompilePipeline:
        """Return the transforms of the pipeline that come before ``transform``."""
        position = next(index for index, other in enumerate(self._pipeline) if other is transform)
        return self._pipeline[:position]

    def _find_dependent_params(self, before: CompilePipeline) -> list[set[int]]:
        """Find the gate parameters that depend on the QNode arguments ``argnums``.

        Args:
            before: the transforms before the gradient transform, which produce its tapes.

        Returns:
            for each tape, the set of indices of these parameters among all parameters of the tape.

        Raises:
            CompileError: if ``argnums`` is out of range, or no parameter depends on the arguments.
        """
        argnums = self._argnums
        differentiated = [argnums] if isinstance(argnums, int) else list(argnums)
        counts: list[int] = []

        def parameters(*chosen: Any) -> Any:
            """Return the parameters of each tape for new values of the arguments ``argnums``.

            JAX traces this function, and the jaxpr shows which parameters depend on the arguments.
            The function also stores the number of parameters of each tape in ``counts``.

            Args:
                chosen: the new values.
            """
            args = list(self._args)
            for position, value in zip(differentiated, chosen, strict=True):
                args[position] = value
            tapes = _list_tape_parameters(before, self._record(*args))
            counts[:] = map(len, tapes)
            return tapes

        try:
            chosen = [self._args[position] for position in differentiated]
        except IndexError:
            raise CompileError(
                f"{self._where}: a gradient transform has argnums {differentiated}, expected "
                f"positions among the {len(self._args)} positional arguments of the QNode. Correct "
                "argnums, or pass arguments by position."
            ) from None
        jaxpr = jax.make_jaxpr(parameters)(*chosen).jaxpr
        depends = iter(find_dependents(jaxpr, [True] * len(jaxpr.invars))[0])
        numbers = [{number for number in range(count) if next(depends)} for count in counts]
        if not any(numbers):
            raise CompileError(
                f"{self._where}: a gradient transform has argnums {differentiated}, and no gate "
                "parameter depends on these arguments. Set argnums of the transform, 0 by default, "
                "to the positions of arguments that are gate parameters."
            )
        return numbers


def _list_tape_parameters(pipeline: CompilePipeline, tape: Any) -> list[list[Any]]:
    """Apply transforms to a tape, and return the parameters of each resulting tape."""
    with qml.QueuingManager.stop_recording():
        tapes, _ = pipeline((tape,))
    return [tape.get_parameters(trainable_only=False) for tape in tapes]
