"""Dynamic-count parameters: parameters of gates in loops whose length the program computes.

A circuit with such a loop, ::

    for_loop(0, n)(lambda i: qml.RX(x * i, 0))()
    return qml.expval(qml.Z(0))

is traced to a ``while`` that carries the number of the next parameter, and a *perturbation* for the
vector of all these parameters.  (Here each iteration is computed by itself; usually 64 are, see
``recording/iterations``.)  ::

    state number perturbation = while[
      body={ lambda x; i state number perturbation. let
          angle = mul x i
          state = quantum_gates[RX] state [angle] number
          perturbation = quantum_dynamic_count perturbation [angle] session number
          number = add number 1
        in (state, number, perturbation) }
    ] x 0 state 1073741824 0.0
    state value = quantum_measure state coefficients matrices params perturbation

The parameters of gates outside such loops are the vector ``params``, and their tangents and
cotangents are vectors of the program.  A vector of the dynamic-count parameters would have no
static shape.  So the runtime holds their tangents and cotangents, in the session of the circuit.
The program has the perturbation instead, which goes from the gates to the measurement as ``params``
does.  Its value is always 0.0.  Its tangent and cotangent are numbers that name vectors:

    tangent of the perturbation      the vector, in the session, of these parameters' tangents
    cotangent of the perturbation    the vector, in the session, of these parameters' cotangents

In forward mode, each iteration adds the tangents of its parameters to that vector (``direction``).
Then ``directional_derivative_p`` differentiates the measurement along the vector.

In reverse mode, ``vjp`` multiplies the cotangents of the measured values with a Jacobian that the
session keeps.  Then each iteration reads the cotangents of its own parameters, by their number
(``cotangents``).  Measurements in several bases have a Jacobian and a VJP each, and JAX adds up the
cotangents of the perturbation.  Therefore these are powers of two: their sum names the sum of the
VJPs.

All of this must happen before the circuit ends and its session with it; ``after`` sees to that.

Reverse mode also computes the loop a second time, for the residuals of its iterations.  It cannot
measure a second time, so it reads the outcomes of mid-circuit measurements from the session
(``remember``, ``recall``).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Primitive
from jax.interpreters import ad, batching, mlir

from bellhop._jax.private import ir_type
from bellhop.base.equations import equations_of, with_inner_jaxprs
from bellhop.circuits.derivatives.tangents import batch_as_rows, without_tangents, zero_tangent
from bellhop.circuits.precision import real_type
from bellhop_mlir.dialects import quantum
from bellhop_mlir.dialects._precision import whole_bits

# The number of the first dynamic-count parameter, as in runtime/contract.toml.  The parameters
# outside loops of dynamic length have numbers below it.
FIRST_DYNAMIC_COUNT = 1 << 30

# dynamic_count: perturbation f64[], params f64[n], session, number i32[] -> perturbation
dynamic_count_p = Primitive("quantum_dynamic_count")
# dynamic_count_tangent, its JVP: tangent of the perturbation f64[...], tangents of the parameters
#   f64[..., n], session, number -> tangent of the perturbation f64[...]
dynamic_count_tangent_p = Primitive("quantum_dynamic_count_tangent")
# vjp: handle, number of the derivative i32[], cotangents f64[rows, values] -> cotangent of the
#   perturbation f64[rows]
vjp_p = Primitive("quantum_vjp")
# cotangents: session, number i32[], cotangent of the perturbation f64[rows] -> f64[rows, n]
cotangents_p = Primitive("quantum_cotangents")
# direction: session, perturbations f64[rows], parts f64[rows, n], number i32[] -> f64[rows]
_direction_p = Primitive("quantum_direction")
# remember: handle, outcome bool[], number i32[] -> handle
_remember_p = Primitive("quantum_remember")
# remembered: outcome bool[], session, number i32[] -> outcome
_remembered_p = Primitive("quantum_remembered")
# recall: session, number i32[] -> outcome bool[]
_recall_p = Primitive("quantum_recall")
# after: handle, arrays... -> handle
after_p = Primitive("quantum_after")
# The result of each of these has the type of the first operand.
for _primitive in (dynamic_count_p, dynamic_count_tangent_p, _remember_p, _remembered_p, after_p):
    _primitive.def_abstract_eval(lambda first, *_: first)
_direction_p.def_abstract_eval(lambda _, perturbations, *__: perturbations)
_recall_p.def_abstract_eval(lambda *_: ShapedArray((), np.dtype(bool)))
without_tangents(after_p)


class DynamicCount(NamedTuple):
    """The dynamic-count parameters so far, in a circuit that is traced.

    Attributes:
        number: the number of the next one.
        perturbation: the perturbation for the vector of all so far.
    """

    number: Any
    perturbation: Any

    @classmethod
    def first(cls) -> "DynamicCount":
        """Return the object for a circuit that has none yet."""
        return cls(jnp.int32(FIRST_DYNAMIC_COUNT), jnp.zeros((), real_type()))

    def add(self, session: Any, params: Any, count: Any) -> "DynamicCount":
        """Return the object after some more parameters, in the order of execution.

        Args:
            session: any handle of the circuit, which identifies its session.
            params: a vector of parameters.
            count: how many of them are used.  The rest is padding, whose numbers belong to the
                parameters of later gates; it is set to zero, so that it has no derivative.
        """
        if not isinstance(count, int):
            params = jnp.where(jnp.arange(params.size) < count, params, 0.0)
        perturbation = dynamic_count_p.bind(self.perturbation, params, session, self.number)
        return DynamicCount(self.number + jnp.int32(count), perturbation)

    def remember(self, handle: Any, session: Any, outcome: Any) -> tuple["DynamicCount", Any, Any]:
        """Keep a mid-circuit outcome in the session, where reverse mode finds it again.

        Returns:
            the object after it, since the outcome takes a number; the handle; and the outcome.
        """
        handle = _remember_p.bind(handle, outcome, self.number)
        outcome = _remembered_p.bind(outcome, session, self.number)
        return DynamicCount(self.number + jnp.int32(1), self.perturbation), handle, outcome


def recalling(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a jaxpr that reads outcomes from the session, where ``closed`` measures them."""

    def changed(eqn: Any) -> Any:
        if eqn.primitive is _remembered_p:
            return eqn.replace(primitive=_recall_p, invars=eqn.invars[1:])
        return with_inner_jaxprs(eqn, recalling)

    if not any(eqn.primitive is _remembered_p for eqn in equations_of(closed.jaxpr)):
        return closed
    return ClosedJaxpr(
        closed.jaxpr.replace(eqns=list(map(changed, closed.jaxpr.eqns))), closed.consts
    )


def recalls_outcomes(closed: ClosedJaxpr) -> bool:
    """Tell whether a jaxpr reads outcomes of mid-circuit measurements from the session."""
    return any(eqn.primitive is _recall_p for eqn in equations_of(closed.jaxpr))


def reads_the_session(circuit: ClosedJaxpr) -> bool:
    """Tell whether a circuit reads derivatives by dynamic-count parameters from the session."""
    return any(eqn.primitive is after_p for eqn in equations_of(circuit.jaxpr))


def _dynamic_count_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    perturbation = dynamic_count_p.bind(*primals)
    _, _, *place = primals
    *dots, _, _ = tangents
    if all(type(dot) is ad.Zero for dot in dots):
        return perturbation, zero_tangent(perturbation)
    given = [
        jnp.zeros(dot.aval.shape, real_type()) if type(dot) is ad.Zero else dot for dot in dots
    ]
    return perturbation, dynamic_count_tangent_p.bind(*given, *place)


ad.primitive_jvps[dynamic_count_p] = _dynamic_count_jvp
# The perturbation stays unmapped, since its value is zero for each element of a batch.
batching.primitive_batchers[dynamic_count_p] = lambda args, dims: (args[0], dims[0])
mlir.register_lowering(dynamic_count_p, lambda _, perturbation, *__: [perturbation])


def _dynamic_count_tangent_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    # It is linear in its first two operands, which are added up.
    sum_ = dynamic_count_tangent_p.bind(*primals)
    _, _, *place = primals
    *dots, _, _ = tangents
    if all(type(dot) is ad.Zero for dot in dots):
        return sum_, zero_tangent(sum_)
    return sum_, dynamic_count_tangent_p.bind(*map(ad.instantiate_zeros, dots), *place)


def _dynamic_count_tangent_batch(args: Sequence[Any], dims: Sequence[Any]) -> Any:
    perturbation_dot, params_dot, session, number = args
    dim_of_perturbation, dim_of_params, *of_place = dims
    assert all(dim is None for dim in of_place)
    size = next(arg.shape[dim] for arg, dim in zip(args, dims, strict=True) if dim is not None)
    rows = [
        jnp.broadcast_to(dot, (size, *dot.shape)) if dim is None else jnp.moveaxis(dot, dim, 0)
        for dot, dim in ((perturbation_dot, dim_of_perturbation), (params_dot, dim_of_params))
    ]
    return dynamic_count_tangent_p.bind(*rows, session, number), 0


def _dynamic_count_tangent_lower(
    perturbation_dot: Any, params_dot: Any, session: Any, number: Any
) -> Any:
    parts = params_dot.reshape(perturbation_dot.size, params_dot.shape[-1])
    perturbations = _direction_p.bind(
        session, perturbation_dot.reshape(perturbation_dot.size), parts, number
    )
    return perturbations.reshape(perturbation_dot.shape)


def _dynamic_count_transpose(
    perturbation_bar: Any, _: Any, params_dot: Any, session: Any, number: Any
) -> list[Any]:
    if type(perturbation_bar) is ad.Zero:
        return [None] * 4
    (n,) = params_dot.aval.shape
    params_bar = cotangents_p.bind(session, number, perturbation_bar[None], n=n)[0]
    return [perturbation_bar, params_bar, None, None]


ad.primitive_jvps[dynamic_count_tangent_p] = _dynamic_count_tangent_jvp
batching.primitive_batchers[dynamic_count_tangent_p] = _dynamic_count_tangent_batch
mlir.register_lowering(
    dynamic_count_tangent_p, mlir.lower_fun(_dynamic_count_tangent_lower, multiple_results=False)
)
ad.primitive_transposes[dynamic_count_tangent_p] = _dynamic_count_transpose


@vjp_p.def_abstract_eval
def _vjp_aval(_: Any, __: Any, cotangents: Any) -> Any:
    return ShapedArray(cotangents.shape[:1], real_type())


batch_as_rows(vjp_p)


@cotangents_p.def_abstract_eval
def _cotangents_aval(_: Any, __: Any, perturbation_bar: Any, *, n: int) -> Any:
    return ShapedArray((perturbation_bar.shape[0], n), real_type())


batch_as_rows(cotangents_p)


def _direction_lower(_ctx: Any, handle: Any, perturbations: Any, *others: Any) -> Any:
    bits = whole_bits(perturbations.type)
    return quantum.direction([handle, perturbations, *others], [perturbations.type], bits=bits)


mlir.register_lowering(_direction_p, _direction_lower, cacheable=False)
mlir.register_lowering(_remembered_p, lambda _, outcome, *__: [outcome])
mlir.register_lowering(
    _remember_p, lambda _, *operands: quantum.remember(operands), cacheable=False
)
mlir.register_lowering(_recall_p, lambda _, *operands: quantum.recall(operands), cacheable=False)


def _vjp_lower(ctx: Any, handle: Any, derivative: Any, cotangents: Any) -> Any:
    perturbation = ir_type(ctx, ctx.avals_out[0])
    operands = [handle, cotangents, derivative]
    return quantum.vjp(operands, [perturbation], bits=whole_bits(perturbation))


def _cotangents_lower(ctx: Any, session: Any, number: Any, perturbation_bar: Any, **_: Any) -> Any:
    operands = [session, perturbation_bar, number]
    return quantum.cotangents(operands, [ir_type(ctx, ctx.avals_out[0])])


mlir.register_lowering(vjp_p, _vjp_lower, cacheable=False)
mlir.register_lowering(cotangents_p, _cotangents_lower, cacheable=False)
mlir.register_lowering(after_p, lambda _, *operands: quantum.after(operands), cacheable=False)
