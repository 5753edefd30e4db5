"""Noise models of PennyLane's, for one operation at a time.

Where ``model`` puts ``DepolarizingChannel(p)`` behind each ``RX``::

    NoiseOfModel(...).around(RX(x, 0))    [RX(x, 0), DepolarizingChannel(p, 0)]

So noise can be added to a circuit that is no tape: it has loops of computed length, conditionals
and measurements in the middle.
"""

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import numpy as np
import pennylane as qml
from pennylane.operation import StatePrepBase
from pennylane.tape import make_qscript

from bellhop.circuits.gates.control_flow import is_control_flow
from bellhop.circuits.gates.decompositions import decomposition_of
from bellhop.circuits.gates.rewrites import is_piecewise, transform_name
from bellhop.circuits.gates.wires import is_dynamic
from bellhop.errors import CompileError
from bellhop.tracing.state import CONCRETIZATION_ERRORS, trace_state

# The code of what ``partial_wires`` returns, which hands wires on and asks nothing of them.
_PARTIAL = qml.noise.partial_wires(qml.PauliX).__code__


class NoiseOfModel:
    """What ``qml.add_noise`` puts around operations, and in front of measurements.

    Args:
        where: the QNode and its line, for errors.
        noise_model: PennyLane's.
        level: where ``qml.add_noise`` stands among the transforms.
    """

    def __init__(self, where: str, noise_model: Any, level: Any = "user") -> None:
        self._where = where
        self._model = noise_model
        self._takes_apart = level == "user"

    def around(self, op: qml.operation.Operator, *, is_first: bool = False) -> list[Any]:
        """Return an operation with the noise around it; it stands there as the same object.

        Templates are taken apart where PennyLane does so.

        Args:
            op: the operation.
            is_first: whether the circuit begins with it.
        """
        with qml.QueuingManager.stop_recording():
            stays = not self._takes_apart or (is_first and isinstance(op, StatePrepBase))
            parts = [op] if stays else list(_parts(op))
            return [each for part in parts for each in self._around(part)]

    def around_conditional(self, op: qml.operation.Operator) -> list[Any]:
        """Return an operation that an outcome decides, with the noise around it.

        PennyLane's ``decompose`` takes it apart where it takes another operation of the tape apart.
        """
        with qml.QueuingManager.stop_recording():
            conditional = qml.ops.Conditional(None, op)
            noisy = self._around(conditional)
            parts = list(_parts(op)) if self._takes_apart else [op]
            if parts[0] is not op:
                inner = [self._around(qml.ops.Conditional(None, part)) for part in parts]
                if any(len(each) > 1 for each in [noisy, *inner]):
                    raise CompileError(
                        f"{self._where}: an outcome decides {op.name}, and whether PennyLane adds "
                        "noise to that or to its gates depends on what else the circuit has. Write "
                        "its gates, or channels behind them instead of qml.add_noise."
                    )
            return [op if each is conditional else each for each in noisy]

    def behind(self, process: qml.measurements.MeasurementProcess) -> list[Any]:
        """Return the noise in front of a measurement at the end of a circuit."""
        with qml.QueuingManager.stop_recording():
            noise: list[Any] = []
            if self._model.meas_map and any(map(is_dynamic, process.wires)):
                raise _asks_for_wires(self._where, f"the measurement {process}")
            for condition, function in self._model.meas_map.items():
                if self._holds(condition, process):
                    noise += self._made(function, process)
            return noise

    def _around(self, op: qml.operation.Operator) -> list[Any]:
        if is_control_flow(op):
            return [op]
        operations = [op]
        for condition, function in self._model.model_map.items():
            if not self._holds(condition, _hiding_computed_wires(op, self._where)):
                continue
            noise = self._made(function, op)
            # The function may say where the operation itself stands.
            place = next((n for n, each in enumerate(noise) if is_same(each, op)), None)
            if place is None:
                operations += noise
            else:
                operations = noise[:place] + operations + noise[place + 1 :]
        return operations

    def _holds(self, condition: Callable[[Any], Any], thing: object) -> bool:
        return self._asked(lambda: bool(condition(thing)))

    def _made(self, function: Callable[..., Any], thing: Any) -> list[Any]:
        # To be in no set of wires is no error for a wire that the program computes.
        is_of_wires = getattr(function, "__code__", None) is not _PARTIAL
        if is_of_wires and any(map(is_dynamic, thing.wires)):
            raise _asks_for_wires(self._where, thing.name)
        make = lambda: make_qscript(function)(thing, **self._model.metadata).operations
        return list(self._asked(make))

    def _asked(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except CONCRETIZATION_ERRORS as error:
            raise CompileError(
                f"{self._where}: its noise model asks for a number that is only known when the "
                "program runs. Make what it comes from static (static_argnums), or a constant."
            ) from error


def noise_of(qnode: qml.QNode, where: str) -> NoiseOfModel | None:
    """Return the noise that ``qml.add_noise`` adds to a QNode piece by piece, if it does."""
    first = next(iter(qnode.compile_pipeline), None)
    if first is None or transform_name(first) != "add_noise":
        return None
    return NoiseOfModel(where, *first.args, **first.kwargs)


def takes_noise_in_pieces(qnode: qml.QNode) -> bool:
    """Tell whether noise is added to a QNode piece by piece, as on ``default.mixed``.

    What comes before noise decides how much there is, and a circuit is folded as a whole.
    """
    transforms = list(qnode.compile_pipeline)
    is_noise_first = bool(transforms) and transform_name(transforms[0]) == "add_noise"
    is_mixed = type(qnode.device) is qml.devices.DefaultMixed
    is_whole = all(map(is_piecewise, transforms[1:])) and trace_state().folding is None
    return is_mixed and is_noise_first and is_whole


def is_same(one: Any, other: Any) -> bool:
    """Tell whether two operations are known to be the same."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if not any(map(is_dynamic, [*one.data, *one.wires, *other.data, *other.wires])):
        return bool(qml.equal(one, other))
    ones, others = map(_made_of, (one, other))
    return len(ones) == len(others) and all(map(_is_known_equal, ones, others))


def _made_of(op: qml.operation.Operator) -> list[Any]:
    return [*op.data, *op.wires, *op.hyperparameters.values()]


def _is_known_equal(one: Any, other: Any) -> bool:
    if one is other or is_dynamic(one) or is_dynamic(other):
        return one is other
    if isinstance(one, qml.operation.Operator):
        return is_same(one, other)
    return bool(np.array_equal(one, other))


def _parts(op: qml.operation.Operator) -> Iterator[Any]:
    """Return what PennyLane adds noise to: the gates of a template or of its inverse."""
    is_template = hasattr(qml.templates, op.name) or isinstance(op, qml.ops.Adjoint)
    if is_control_flow(op) or not op.has_decomposition or not is_template:
        yield op
        return
    for part in decomposition_of(op):
        yield from _parts(part)


class _ComputedWires:
    """The wires of an operation, some of which the program computes: nothing can be asked."""

    def __init__(self, error: CompileError) -> None:
        self._error = error

    def _refuse(self, *_: object) -> Any:
        raise self._error

    __iter__ = __len__ = __getitem__ = __contains__ = __add__ = __radd__ = _refuse
    __eq__ = __hash__ = _refuse

    def __getattr__(self, name: str) -> Any:
        self._refuse()


def _hiding_computed_wires(op: qml.operation.Operator, where: str) -> Any:
    """Return what a condition may look at: an operation whose computed wires raise an error."""
    if not any(map(is_dynamic, op.wires)):
        return op
    seen = copy(op)
    wires = _ComputedWires(_asks_for_wires(where, op.name))
    seen._wires = wires
    for name, value in op.hyperparameters.items():
        if isinstance(value, qml.operation.Operator):
            seen.hyperparameters[name] = _hiding_computed_wires(value, where)
        elif isinstance(value, qml.wires.Wires):
            seen.hyperparameters[name] = wires
    return seen


def _asks_for_wires(where: str, name: str) -> CompileError:
    return CompileError(
        f"{where}: the noise model asks for the wires of {name}, which the program computes, or "
        "may do so. Use conditions on types (qml.noise.op_in) with noise by "
        "qml.noise.partial_wires, or loops whose bounds are Python numbers."
    )
