"""Trace a circuit to a tape template, and call the Python device that executes the tapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.base.types import Operand, to_structs
from bellhop.circuits.backends.tapes.circuit_function import CircuitFunction
from bellhop.circuits.backends.tapes.device_call import call_circuit
from bellhop.circuits.backends.tapes.template import Template
from bellhop.circuits.backends.tapes.template_circuit import TemplateCircuit
from bellhop.circuits.ir.broadcasting import TracedRow
from bellhop.circuits.ir.circuit import Circuit
from bellhop.circuits.ir.measurement_types import is_measurement
from bellhop.circuits.ir.memory import MemoryCheck
from bellhop.circuits.ir.seeds import make_random_key, offer_device_seed
from bellhop.circuits.ir.wires import WireMap
from bellhop.circuits.measure.result_types import find_result

if TYPE_CHECKING:
    import pennylane as qml


def run_on_python_device(call: Circuit, device: qml.devices.Device, _: WireMap) -> Any:
    """Trace a circuit, and add a call of its Python device to the program.

    Args:
        device: the PennyLane device that executes the circuit's tapes. It maps wire labels itself.
        _: not used.

    Returns:
        the measurement results, in the structure of the quantum function's result.

    Raises:
        CompileError: if a tape cannot represent the circuit.
    """
    config, where, shots = call.config, call.where, call.shots
    if shots.total:
        offer_device_seed(device)

    def run_row(rows: TracedRow, row: Operand, *inputs: Operand) -> tuple[Any, list[Any], Any]:
        """Trace one batch row of the circuit, and add the call of its device.

        Args:
            rows: selects the row of batched gate parameters.
            row: the traced index of the row, which gives each row its own random numbers.
            *inputs: the quantum function's arguments that are arrays.

        Returns:
            the QNode's results, and the leaves and the tree structure of the quantum function's
            result.
        """
        recorded = TemplateCircuit(where, rows, device.wires)
        leaves, tree = call.function.apply_to_circuit(recorded, inputs)
        processes = [leaf for leaf in leaves if is_measurement(leaf)]
        template = Template(
            tuple(recorded.steps),
            tuple(map(recorded.make_measurement_part, processes)),
            shots,
            device.wires,
        )
        operands = list(recorded.operands.values())
        if hasattr(device, "c_dtype"):
            amplitude = np.dtype(device.c_dtype).itemsize
            MemoryCheck(where).check_state(template.n_wires, amplitude=amplitude)
        groups = shots.shot_vector or (None,)
        results = [
            [find_result(process, device, template.n_wires, group, where) for process in processes]
            for group in groups
        ]
        function = CircuitFunction(
            config,
            device,
            where,
            template,
            tuple(to_structs(operands)),
            tuple(result for group in results for result in group),
            is_seeded=bool(shots.total),
        )
        function.check_allocations()
        if shots.total:
            operands.append(jax.random.key_data(make_random_key(*operands, row)))
        values = iter(call_circuit(function, operands))

        def build_entry_result(group: Sequence[Any]) -> Any:
            """Assemble the QNode's result for one entry of the shot vector.

            Args:
                group: a description of each of the entry's results. The next array of ``values`` is
                    taken for each.
            """
            finished = iter(
                [recorded.precision.cast_result(result.finish(next(values))) for result in group]
            )
            return jax.tree.unflatten(
                tree,
                [next(finished) if is_measurement(leaf) else jnp.asarray(leaf) for leaf in leaves],
            )

        copies = tuple(map(build_entry_result, results))
        return copies if shots.is_vector else copies[0], leaves, tree

    return call.trace_rows(run_row)
