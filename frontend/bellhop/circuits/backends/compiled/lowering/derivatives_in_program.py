"""Differentiate circuits of the runtime with the same circuit in the program.

The engine has derivatives of any order of means and probabilities, by the angles of gates.  Of a
state it has only the first derivative, and by a gate's matrix none.  For such circuits the engine
computes the values, and JAX differentiates the circuit as it runs on ``default.qubit``, which is
traced when a derivative needs it.

Whether the engine has all derivatives is read in the circuit's jaxpr, traced for the engine::

    { lambda ; state:u32[2] x:f64[]. let
        state = quantum_gates[gates=(RX,)] state [x] 0 []
        state value = quantum_measure[measuring=(Expval(Z),)] state [] [] [x]      all derivatives
        state value = quantum_measure[measuring=(State(),)] state [] [] [x]        not all
      in (state, value) }
"""

import contextvars
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
from jax.core import Tracer
from jax.extend.core import Jaxpr, JaxprEqn

from bellhop._jax.jaxprs import convert_constvars_jaxpr
from bellhop.circuits.backends.choose.choose_executor import get_runner, plan_arrays
from bellhop.circuits.backends.compiled.differentiable.compiled_state import CircuitEquation
from bellhop.circuits.backends.compiled.differentiable.derivative_fallback import FallbackFunction
from bellhop.circuits.backends.compiled.lowering.traced_call import TracedCall
from bellhop.circuits.backends.compiled.outcomes.shot_grouping import has_outcomes_in_dynamic_loops
from bellhop.circuits.gates.nonunitary import may_change_norm
from bellhop.circuits.gates.shift_rules import FrequencyBits
from bellhop.circuits.ir.device_measurements import Expval, Probs, Var
from bellhop.circuits.ir.diff_method import DiffMethod
from bellhop.circuits.ir.wires import WireMap
from bellhop.jaxprs.equations import find_dependents, has_tangent, iterate_equations


def find_missing_derivative(traced: TracedCall) -> str:
    """Return why Bellhop's engine does not support some derivative of a circuit.

    The engine is Bellhop's own simulator. Derivatives of any order and by any input are considered.

    Args:
        traced: the circuit, traced for the engine.

    Returns:
        the reason as a clause about the circuit, such as "the circuit measures a traced matrix".
        Empty if the engine has all derivatives, or if only the engine supports the circuit.
    """
    circuit = traced.closed.jaxpr
    if traced.plan.outcomes.is_drawn_in_each_run:
        # Only the engine supports outcomes in loops with a dynamic trip count.
        is_alone = has_outcomes_in_dynamic_loops(circuit)
        return "" if is_alone else "the circuit runs once for each shot"
    reasons = (_find_missing_in_equation(eqn, circuit) for eqn in iterate_equations(circuit))
    return next(filter(None, reasons), "")


def _find_missing_in_equation(eqn: JaxprEqn, circuit: Jaxpr) -> str:
    """Return why the engine does not support some derivative of an equation; else "".

    Only gates and final measurements may lack derivatives.

    Args:
        eqn: any equation of the circuit.
        circuit: the jaxpr that has the equation.

    Returns:
        the reason as a clause about the circuit; empty if the engine has all derivatives.
    """
    params, of_circuit = eqn.params, CircuitEquation(eqn)
    if of_circuit.is_gates:
        is_whole = not params["obstacle"] and not may_change_norm(params["gates"], if_traced=True)
        return "" if is_whole else "the circuit has a matrix that is traced or not unitary"
    measuring = of_circuit.measuring
    if measuring is None:
        return ""
    if measuring.differentiation.method == DiffMethod.LIKELIHOOD_RATIO:
        return _find_missing_with_shots(eqn)
    if FrequencyBits.UNKNOWN in measuring.differentiation.frequencies:
        return "the circuit has a gate without a parameter-shift rule"
    if not all(isinstance(each, Expval | Probs | Var) for each in measuring.measurements):
        return "the circuit returns a state, or a function of a state"
    is_computed = _find_perturbed_operands(eqn, circuit, [True] * len(circuit.invars)).matrices
    return "the circuit measures a traced matrix" if is_computed else ""


def _find_missing_with_shots(eqn: JaxprEqn) -> str:
    """Return why the engine does not support a derivative of a measurement with shots.

    The reason is a clause about the circuit; empty if the engine has all derivatives.
    """
    if not all(each.is_in_engine for each in CircuitEquation(eqn).measurements):
        return "the circuit measures classical shadows"
    # The session of a circuit keeps the dynamic-count derivative of one measurement only.
    if CircuitEquation(eqn).operands.perturbation is not None:
        return "the circuit has shots, and gates in a loop of dynamic trip count"
    return ""


def _find_perturbed_operands(eqn: JaxprEqn, circuit: Jaxpr, inputs: Sequence[bool]) -> Any:
    """Return for each operand of a measurement whether it depends on perturbed inputs.

    Args:
        eqn: an equation of the final measurement.
        circuit: the jaxpr that has the equation.
        inputs: for each input of the circuit, whether it is perturbed.

    Returns:
        a `MeasureOperands` of booleans; None for operands that the measurement does not have.
    """
    operands = CircuitEquation(eqn).operands
    debug_info = circuit.debug_info._replace(result_paths=None)
    to_operands = circuit.replace(outvars=list(operands.to_dict().values()), debug_info=debug_info)
    return operands.with_values(find_dependents(to_operands, inputs, has_tangent)[0])


def _has_derivative(circuit: Jaxpr, inputs: Sequence[bool], order: int) -> bool:
    """Return whether the runtime has a circuit's derivative of a given order.

    Args:
        circuit: the jaxpr of the circuit.
        inputs: for each input of the jaxpr, whether the derivative is by this input.
        order: the order of the derivative.
    """
    _, equations = find_dependents(circuit, inputs, has_tangent)
    return not any(_lacks_derivative(eqn, circuit, inputs, order) for eqn in equations)


def _lacks_derivative(eqn: JaxprEqn, circuit: Jaxpr, inputs: Sequence[bool], order: int) -> bool:
    """Return whether an equation has no derivative of a given order in the runtime.

    Args:
        eqn: an equation of the circuit that depends on the inputs of the derivative.
        circuit: the jaxpr that has the equation.
        inputs: for each input of the jaxpr, whether the derivative is by this input.
        order: the order of the derivative.
    """
    of_circuit = CircuitEquation(eqn)
    if of_circuit.is_gates:
        return bool(eqn.params["obstacle"])
    measuring = of_circuit.measuring
    if measuring is None:
        return False
    perturbed = _find_perturbed_operands(eqn, circuit, inputs)
    first = last = measuring.differentiation
    if perturbed.amplitudes:
        last = first.amplitude_differentiation
    is_first_only = any(each.obstacle for each in measuring.measurements)
    return bool(
        last.obstacle
        or (perturbed.matrices and measuring.has_large_matrices)
        or (order > 1 and (is_first_only or last.method != first.method))
    )


def run_differentiable(circuit: TracedCall, device: Any, wires: WireMap) -> Any:
    """Bind a circuit, with an array simulation as fallback for missing derivatives.

    The runtime computes the values. For a derivative that it does not support, JAX differentiates
    the circuit as simulated on arrays, which is traced only then. A circuit is bound without this
    fallback if the runtime has all derivatives, and if the circuit has effects, or closes over
    tracers that are not constants of the quantum function.

    Args:
        circuit: the circuit, traced for the runtime.
        device: the PennyLane device.
        wires: maps wire labels to qubits.

    Returns:
        the measurements' values, in the structure that the quantum function returned.
    """
    call = circuit.call
    function = call.function
    if circuit.closed.effects or not _needs_program_derivatives(circuit):
        return circuit.run()
    constants = function.get_constants()
    operands = [*constants, *call.inputs]
    places = {id(operand): place for place, operand in enumerate(operands)}
    if any(isinstance(c, Tracer) and id(c) not in places for c in circuit.closed.consts):
        return circuit.run()

    tree: Any = None
    dtypes: list[Any] = []

    def run_in_runtime(*operand_values: Any) -> list[Any]:
        """Run the circuit in the runtime; return the leaves of its results.

        It also stores the results' tree structure and dtypes for `run_differentiable`. The
        arguments are the constants of the quantum function, and the inputs of the call.
        """
        nonlocal tree, dtypes
        at = lambda const: operand_values[places[id(const)]] if id(const) in places else const
        results = circuit.run(
            list(map(at, circuit.closed.consts)), operand_values[len(constants) :]
        )
        leaves, tree = jax.tree.flatten(results)
        dtypes = [leaf.dtype for leaf in leaves]
        return leaves

    def run_in_program(*operand_values: Any) -> list[Any]:
        """Run the circuit as JAX operations; return the same leaves as `run_in_runtime`.

        Args:
            *operand_values: the constants of the quantum function, and the inputs of the call.
        """
        reason = "the runtime lacks some of the circuit's derivatives"
        plan = plan_arrays(reason, device, call.config)
        program_call = replace(call, inputs=operand_values[len(constants) :], plan=plan)
        with function.override_constants(operand_values[: len(constants)]):
            results = get_runner(plan, device)(program_call, device, wires)
        leaves = jax.tree.leaves(results)
        return [leaf.astype(dtype) for leaf, dtype in zip(leaves, dtypes, strict=True)]

    # JAX may call the rule after this call has ended, so the context is saved.
    context = contextvars.copy_context()
    in_context = lambda *operand_values: context.copy().run(run_in_program, *operand_values)
    circuit_of_all = convert_constvars_jaxpr(circuit.closed)

    def supports_derivative(is_perturbed: Sequence[bool], order: int) -> bool:
        """Return whether the runtime has a derivative; for `FallbackFunction`.

        Args:
            is_perturbed: for each constant of the quantum function and then each input of the call,
                whether the derivative is by it.
            order: the order of the derivative.
        """
        constants_perturbed = [
            id(const) in places and is_perturbed[places[id(const)]]
            for const in circuit.closed.consts
        ]
        inputs = [*constants_perturbed, False, False, *is_perturbed[len(constants) :]]
        return _has_derivative(circuit_of_all, inputs, order)

    leaves = FallbackFunction(
        run_in_runtime, in_context, supports_derivative, [False] * len(operands)
    )(*operands)
    return jax.tree.unflatten(tree, leaves)


def _needs_program_derivatives(circuit: TracedCall) -> bool:
    """Return whether a circuit needs an array simulation for some of its derivatives.

    True if derivatives must be exact, and the engine lacks some of them. False for circuits that
    draw random numbers, and for other methods than ``best``, ``adjoint`` and ``parameter-shift``.
    For ``parameter-shift``, only derivatives by gates are considered.
    """
    method = circuit.call.config.diff_method
    if circuit.plan.outcomes.is_drawn:
        return False
    if method == DiffMethod.PARAMETER_SHIFT:
        # Other derivatives without a shift rule raise an error.
        return any(
            _find_missing_in_equation(eqn, circuit.closed.jaxpr)
            for eqn in iterate_equations(circuit.closed.jaxpr)
            if CircuitEquation(eqn).is_gates
        )
    return method in (DiffMethod.BEST, DiffMethod.ADJOINT) and bool(
        find_missing_derivative(circuit)
    )
