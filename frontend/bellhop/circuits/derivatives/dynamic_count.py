"""Parameters of gates in loops whose length only the run knows.

Those of other gates form one vector, which goes to the measurement.  These would form one too,
but it has no shape when the program is compiled.  So the session of the circuit holds what the
derivative needs of it, and in the program a number stands for it, the *token*: it goes from the
gates to the measurement like the vector would.  It is zero, and only its derivatives mean
something:

    tangent of the token      the tangents of all parameters
    cotangent of the token    the derivative of what is asked for by all parameters

Going forward, a tangent of the token names a direction: a vector that the session holds, to which
each iteration adds its part.  What is measured has derivatives in directions, of any order
(``bellhop.circuits.derivatives.directional_derivative``).

Going back, ``weigh`` hands the session the cotangents of the measured values, which it multiplies
with its Jacobian; then the gates take what belongs to them, by their numbers (``weights``).  What
is measured in several bases has a Jacobian for each; a cotangent of the token is a bit that names
the products with one of them, so that JAX's sum of cotangents names their sum.  Either way,
derivatives are taken before the circuit ends.

Outcomes of measurements in such a loop are asked of the session as well, where the loop's values
are computed again.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Primitive
from jax.interpreters import ad, batching, mlir

from bellhop._jax.private import ir_type
from bellhop.circuits.derivatives.tangents import zero_tangent
from bellhop.circuits.precision import real_type
from bellhop.control_flow.unused_values import equations
from bellhop_mlir.dialects import quantum

# The number of the first, in runtime/contract.toml: those of counted ones are below.
FIRST_UNCOUNTED = 1 << 30

# uncounted: token f64[], params f64[n], ticket, number i32[] -> token
uncounted_p = Primitive("quantum_uncounted")
# Its derivative: the tangents of token f64[...] and params f64[..., n], ticket, number -> that of
#   the token
uncounted_tangent_p = Primitive("quantum_uncounted_tangent")
# weigh: handle, cotangents f64[rows, values], number of the derivative i32[] -> cotangent of the
#   token f64[rows]
weigh_p = Primitive("quantum_weigh")
# weights: ticket, cotangent of the token f64[rows], number i32[] -> cotangents f64[rows, n]
weights_p = Primitive("quantum_weights")
# direction: ticket, tokens f64[rows], parts f64[rows, n], number i32[] -> tokens f64[rows]
_direction_p = Primitive("quantum_direction")
# remember: handle, outcome bool[], number i32[] -> handle
_remember_p = Primitive("quantum_remember")
# remembered: outcome bool[], ticket, number i32[] -> outcome
_remembered_p = Primitive("quantum_remembered")
# recall: ticket, number i32[] -> outcome bool[]
_recall_p = Primitive("quantum_recall")
# after: handle, arrays... -> handle
after_p = Primitive("quantum_after")


class Uncounted(NamedTuple):
    """What a circuit knows of these parameters.

    Attributes:
        number: of the next.
        token: stands for all so far.
    """

    number: Any
    token: Any

    @classmethod
    def first(cls) -> "Uncounted":
        """Return what is known before the first."""
        return cls(jnp.int32(FIRST_UNCOUNTED), jnp.zeros((), real_type()))

    def add(self, ticket: Any, params: Any, count: Any) -> "Uncounted":
        """Add parameters, in the order of execution.

        Args:
            ticket: a handle of the circuit, from wherever: it tells the session.
            params: a vector.
            count: how many of them there are.  The rest of the vector stands for none: without
                a derivative, as the numbers after these are those of others.
        """
        if not isinstance(count, int):
            params = jnp.where(jnp.arange(params.size) < count, params, 0.0)
        token = uncounted_p.bind(self.token, params, ticket, self.number)
        return Uncounted(self.number + jnp.int32(count), token)

    def remember(self, handle: Any, ticket: Any, outcome: Any) -> tuple["Uncounted", Any, Any]:
        """Keep an outcome for the way back, under a number of its own.

        Returns:
            what is known after it, the handle, and the outcome.
        """
        handle = _remember_p.bind(handle, outcome, self.number)
        outcome = _remembered_p.bind(outcome, ticket, self.number)
        return Uncounted(self.number + jnp.int32(1), self.token), handle, outcome


def recalling(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a jaxpr that asks the session for outcomes in place of measuring."""

    def part(value: Any) -> Any:
        if isinstance(value, ClosedJaxpr):
            return recalling(value)
        if type(value) is tuple and any(isinstance(each, ClosedJaxpr) for each in value):
            return tuple(map(part, value))
        return value

    def changed(eqn: Any) -> Any:
        if eqn.primitive is _remembered_p:
            return eqn.replace(primitive=_recall_p, invars=eqn.invars[1:])
        return eqn.replace(params={name: part(value) for name, value in eqn.params.items()})

    if not any(eqn.primitive is _remembered_p for eqn in equations(closed.jaxpr)):
        return closed
    return ClosedJaxpr(
        closed.jaxpr.replace(eqns=list(map(changed, closed.jaxpr.eqns))), closed.consts
    )


def recalls_outcomes(closed: ClosedJaxpr) -> bool:
    """Tell whether a jaxpr asks the session for outcomes."""
    return any(eqn.primitive is _recall_p for eqn in equations(closed.jaxpr))


def reads_the_session(circuit: ClosedJaxpr) -> bool:
    """Tell whether a circuit computes derivatives by such parameters, which its session keeps."""
    return any(eqn.primitive is after_p for eqn in equations(circuit.jaxpr))


@uncounted_p.def_abstract_eval
def _uncounted_aval(token: Any, *_: Any) -> Any:
    return token


def _uncounted_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    token = uncounted_p.bind(*primals)
    dots = tangents[:2]
    if all(type(dot) is ad.Zero for dot in dots):
        return token, dots[0]
    given = [
        jnp.zeros(dot.aval.shape, real_type()) if type(dot) is ad.Zero else dot for dot in dots
    ]
    return token, uncounted_tangent_p.bind(*given, *primals[2:])


ad.primitive_jvps[uncounted_p] = _uncounted_jvp
# The token of all rows of a batch is one: it stands for nothing when a batch is made.
batching.primitive_batchers[uncounted_p] = lambda args, dims: (args[0], dims[0])
mlir.register_lowering(uncounted_p, lambda _, token, *__: [token])


@uncounted_tangent_p.def_abstract_eval
def _uncounted_tangent_aval(token_dot: Any, *_: Any) -> Any:
    return token_dot


def _uncounted_tangent_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    # It is a sum: of a direction and a part of one.
    sum_ = uncounted_tangent_p.bind(*primals)
    dots = tangents[:2]
    if all(type(dot) is ad.Zero for dot in dots):
        return sum_, dots[0]
    return sum_, uncounted_tangent_p.bind(*map(ad.instantiate_zeros, dots), *primals[2:])


def _uncounted_tangent_batch(args: Sequence[Any], dims: Sequence[Any]) -> Any:
    token_dot, params_dot, ticket, number = args
    assert dims[2] is dims[3] is None
    size = next(arg.shape[dim] for arg, dim in zip(args, dims, strict=True) if dim is not None)
    rows = [
        jnp.broadcast_to(dot, (size, *dot.shape)) if dim is None else jnp.moveaxis(dot, dim, 0)
        for dot, dim in ((token_dot, dims[0]), (params_dot, dims[1]))
    ]
    return uncounted_tangent_p.bind(*rows, ticket, number), 0


def _uncounted_tangent_lower(token_dot: Any, params_dot: Any, ticket: Any, number: Any) -> Any:
    parts = params_dot.reshape(token_dot.size, params_dot.shape[-1])
    tokens = _direction_p.bind(ticket, token_dot.reshape(token_dot.size), parts, number)
    return tokens.reshape(token_dot.shape)


def _uncounted_transpose(
    token_bar: Any, _: Any, params_dot: Any, ticket: Any, number: Any
) -> list[Any]:
    if type(token_bar) is ad.Zero:
        return [None] * 4
    (n,) = params_dot.aval.shape
    params_bar = weights_p.bind(ticket, token_bar[None], number, n=n)[0]
    return [token_bar, params_bar, None, None]


ad.primitive_jvps[uncounted_tangent_p] = _uncounted_tangent_jvp
batching.primitive_batchers[uncounted_tangent_p] = _uncounted_tangent_batch
mlir.register_lowering(
    uncounted_tangent_p, mlir.lower_fun(_uncounted_tangent_lower, multiple_results=False)
)
ad.primitive_transposes[uncounted_tangent_p] = _uncounted_transpose


@weigh_p.def_abstract_eval
def _weigh_aval(_: Any, cotangents: Any, __: Any) -> Any:
    return ShapedArray(cotangents.shape[:1], real_type())


def _weigh_batch(args: Sequence[Any], dims: Sequence[Any]) -> Any:
    handle, cotangents, derivative = args
    cotangents = jnp.moveaxis(cotangents, dims[1], 0)
    size, rows, n_values = cotangents.shape
    tokens = weigh_p.bind(handle, cotangents.reshape(size * rows, n_values), derivative)
    return tokens.reshape(size, rows), 0


batching.primitive_batchers[weigh_p] = _weigh_batch


@weights_p.def_abstract_eval
def _weights_aval(_: Any, token_bar: Any, __: Any, *, n: int) -> Any:
    return ShapedArray((token_bar.shape[0], n), real_type())


def _weights_batch(args: Sequence[Any], dims: Sequence[Any], *, n: int) -> Any:
    ticket, token_bar, number = args
    token_bar = jnp.moveaxis(token_bar, dims[1], 0)
    size, rows = token_bar.shape
    found = weights_p.bind(ticket, token_bar.reshape(size * rows), number, n=n)
    return found.reshape(size, rows, n), 0


batching.primitive_batchers[weights_p] = _weights_batch


@_direction_p.def_abstract_eval
def _direction_aval(_: Any, tokens: Any, *__: Any) -> Any:
    return tokens


mlir.register_lowering(
    _direction_p, lambda _, *operands: [quantum.direction(*operands)], cacheable=False
)


@_remember_p.def_abstract_eval
def _remember_aval(handle: Any, *_: Any) -> Any:
    return handle


@_remembered_p.def_abstract_eval
def _remembered_aval(outcome: Any, *_: Any) -> Any:
    return outcome


@_recall_p.def_abstract_eval
def _recall_aval(*_: Any) -> Any:
    return ShapedArray((), np.dtype(bool))


mlir.register_lowering(_remembered_p, lambda _, outcome, *__: [outcome])
mlir.register_lowering(
    _remember_p, lambda _, *operands: [quantum.remember(*operands)], cacheable=False
)
mlir.register_lowering(_recall_p, lambda _, *operands: [quantum.recall(*operands)], cacheable=False)


@after_p.def_abstract_eval
def _after_aval(handle: Any, *_: Any) -> Any:
    return handle


def _after_jvp(primals: Sequence[Any], _: Sequence[Any]) -> Any:
    handle = after_p.bind(*primals)
    return handle, zero_tangent(handle)


ad.primitive_jvps[after_p] = _after_jvp


def _weigh_lower(ctx: Any, handle: Any, cotangents: Any, derivative: Any) -> Any:
    return [quantum.weigh(handle, cotangents, derivative, ir_type(ctx, ctx.avals_out[0]))]


def _weights_lower(ctx: Any, ticket: Any, token_bar: Any, number: Any, **_: Any) -> Any:
    return [quantum.weights(ticket, token_bar, number, ir_type(ctx, ctx.avals_out[0]))]


mlir.register_lowering(weigh_p, _weigh_lower, cacheable=False)
mlir.register_lowering(weights_p, _weights_lower, cacheable=False)
mlir.register_lowering(
    after_p, lambda _, handle, *anchors: [quantum.after(handle, anchors)], cacheable=False
)
