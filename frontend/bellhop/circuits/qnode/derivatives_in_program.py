"""Circuits of the runtime whose derivatives are those of the same circuit in the program.

The engine has derivatives of any order of means and probabilities, by the angles of gates.  Of a
state it has the first, and by the matrix of a gate none: so of these it computes the values, and
JAX differentiates the circuit as it runs on ``default.qubit``, which is traced when that is asked
for.
Which circuits those are is seen in the jaxpr of a circuit, traced for the engine::

    { lambda ; state:u32[2] x:f64[]. let
        state = quantum_gates[gates=(RX,)] state [x] 0 []
        state value = quantum_measure[measuring=(Expval(Z),)] state [] [] [x]      has all
        state value = quantum_measure[measuring=(State(),)] state [] [] [x]        has not
      in (state, value) }
"""

import contextvars
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
from jax.core import Tracer
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import Jaxpr, JaxprEqn

from bellhop._jax.private import is_partially_evaluated
from bellhop.base.equations import depending_on, equations_of
from bellhop.circuits.circuit.randomness import Randomness
from bellhop.circuits.circuit.traced_circuit import QNodeCall, TracedCircuit
from bellhop.circuits.derivatives.diff_method import ADJOINT, BEST, PARAMETER_SHIFT, method_of
from bellhop.circuits.gates.shift_rules import UNKNOWN_FREQUENCIES
from bellhop.circuits.gates.unitarity import may_change_norm
from bellhop.circuits.gates.wires import WireMap
from bellhop.circuits.in_program.simulate import run_traced
from bellhop.circuits.measure.device_measurements import Expval, Probs, Var
from bellhop.circuits.operations.measurement_primitives import (
    MeasureOperands,
    measure_p,
)
from bellhop.circuits.operations.state_primitives import gates_p
from bellhop.errors import CompileError, DifferentiableCompileError


def has_all_derivatives(traced: TracedCircuit) -> bool:
    """Tell whether the engine has derivatives of any order of a circuit, by all of its inputs."""
    circuit = traced.closed.jaxpr
    return traced.randomness in (Randomness.NONE, Randomness.TREE) and all(
        _has_all(eqn, circuit) for eqn in equations_of(circuit)
    )


def _has_all(eqn: JaxprEqn, circuit: Jaxpr) -> bool:
    params = eqn.params
    if eqn.primitive is gates_p:
        return not params["obstacle"] and not may_change_norm(params["gates"], if_computed=True)
    if eqn.primitive is not measure_p:
        return True
    matrices = circuit.replace(
        outvars=[MeasureOperands.of(eqn).matrices],
        debug_info=circuit.debug_info._replace(result_paths=None),
    )
    (are_computed,), _ = depending_on(matrices, [True] * len(circuit.invars))
    measuring = params["measuring"]
    has_rules = UNKNOWN_FREQUENCIES not in measuring.differentiation.frequencies
    is_real = all(isinstance(each, Expval | Probs | Var) for each in measuring.measurements)
    return has_rules and is_real and not are_computed


def run_differentiable(
    circuit: TracedCircuit, wires: WireMap, of_angles: Callable[[QNodeCall], TracedCircuit]
) -> Any:
    """Bind a circuit, with derivatives in the program where the engine has not all of them.

    Args:
        circuit: as the runtime gets it.
        wires: those of the circuit.
        of_angles: traces the circuit of a call with angles in place of matrices on one wire.
    """
    call = circuit.call
    played = call.function
    if circuit.closed.effects or not _is_exact(circuit):
        return circuit.run()
    constants = played.constants()
    operands = [*constants, *call.inputs]
    places = {id(operand): place for place, operand in enumerate(operands)}
    if any(isinstance(c, Tracer) and id(c) not in places for c in circuit.closed.consts):
        return circuit.run()

    dtypes: Any = None

    def in_runtime(*given: Any) -> Any:
        nonlocal dtypes
        at = lambda const: given[places[id(const)]] if id(const) in places else const
        results = circuit.run(list(map(at, circuit.closed.consts)), given[len(constants) :])
        dtypes = jax.tree.map(lambda array: array.dtype, results)
        return results

    def in_program(*given: Any) -> Any:
        same = replace(call, inputs=given[len(constants) :])
        with played.with_constants(given[: len(constants)]):
            # Reverse mode goes back through loops of computed length in the engine alone.
            by_angles = _counts_at_run(circuit)
            results = of_angles(same).run() if by_angles else run_traced(same, wires)
        return jax.tree.map(lambda array, dtype: array.astype(dtype), results, dtypes)

    # The rule may be asked for when nothing of this call is under way any more.
    context = contextvars.copy_context()
    in_context = lambda *given: context.copy().run(in_program, *given)
    return _differentiable(in_runtime, in_context)(*operands)


def _differentiable(
    in_runtime: Callable[..., Any], in_program: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a function, of arrays, that is differentiated as another where it has no derivative.

    Args:
        in_runtime: the function.
        in_program: has the same values.
    """
    function = jax.custom_jvp(in_runtime)

    def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        moved = [n for n, dot in enumerate(tangents) if not isinstance(dot, SymbolicZero)]

        def pushed(function: Callable[..., Any]) -> Callable[..., Any]:
            def push(*given: Any) -> tuple[Any, Any]:
                primals, dots = given[: len(tangents)], given[len(tangents) :]

                def of_moved(*some: Any) -> Any:
                    every = dict(enumerate(primals)) | dict(zip(moved, some, strict=True))
                    return function(*every.values())

                return jax.jvp(of_moved, [primals[n] for n in moved], list(dots))

            return push

        given = [*primals, *(tangents[n] for n in moved)]
        try:
            if is_partially_evaluated():
                # JAX drops such a rule here, or, since 0.12, knows no result of it.
                return pushed(in_runtime)(*given)
            return _differentiable(pushed(in_runtime), pushed(in_program))(*given)
        except DifferentiableCompileError as obstacle:
            # First, since the types of the results are taken from it.
            results = function(*primals)
            try:
                _, dots = pushed(in_program)(*given)
            except CompileError:
                raise obstacle from None
            return results, dots

    function.defjvp(rule, symbolic_zeros=True)
    return function


def _is_exact(circuit: TracedCircuit) -> bool:
    """Tell whether derivatives are to be exact, and the engine has not all of them."""
    method = method_of(circuit.call.qnode)
    if circuit.randomness not in (Randomness.NONE, Randomness.TREE):
        return False
    if method == PARAMETER_SHIFT:
        # What of a state has no shift rule, its user is told.
        return any(
            not _has_all(eqn, circuit.closed.jaxpr)
            for eqn in equations_of(circuit.closed.jaxpr)
            if eqn.primitive is gates_p
        )
    return method in (BEST, ADJOINT) and not has_all_derivatives(circuit)


def _counts_at_run(traced: TracedCircuit) -> bool:
    """Tell whether there are gates in a loop of computed length."""
    return any(
        MeasureOperands.of(eqn).perturbation is not None
        for eqn in equations_of(traced.closed.jaxpr)
        if eqn.primitive is measure_p
    )
