"""`pure_callback`: a Python function without side effects, and its derivative rules."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Literal,
    ParamSpec,
    TypeVar,
    cast,
    overload,
)

import jax

from bellhop._jax.private import hide_frames
from bellhop.arguments.accepted_arguments import check_call
from bellhop.arguments.declared_types import MISSING, annotated_result_type, infer, result_avals
from bellhop.base.pickling import PickledByName
from bellhop.base.public_function import public_function
from bellhop.base.source import function_name, user_site
from bellhop.base.types import PyTree
from bellhop.base.uncalled_function import UncalledFunction
from bellhop.callbacks.bound_methods import bind_method
from bellhop.callbacks.call_signature import describe_uncalled_callback, parse_call
from bellhop.callbacks.callback_type import Pure, Results
from bellhop.callbacks.custom_vjp_rule import CustomVjpRule
from bellhop.callbacks.infer import infer_results
from bellhop.callbacks.linear_call import LinearCall
from bellhop.callbacks.rule_checks import (
    check_pair,
    check_result,
    check_tangent,
    describe_rule,
    wrap_rule,
)
from bellhop.callbacks.vmap_method import check_vmap_method
from bellhop.compiler.callback_target import flatten_arguments, must_run_in_python
from bellhop.mesh.manual_axes import vary_like

PURE = Pure("pure_callback")

Rule = TypeVar("Rule", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")


# How to register the rules that these methods of JAX register.
_RULES_OF_JAX = {
    "defvjp": "Put @f.fwd above the forward rule, and @f.bwd above the backward rule.",
    "defjvp": "Put @f.jvp above the rule.",
    "def_transpose": "Put @f.transpose above the rule.",
}


class PureCallback(UncalledFunction, PickledByName, Generic[P, R]):
    """A Python function that traced code can call; ``pure_callback`` returns it.

    Its methods register derivative rules.

    Example:
        >>> import bellhop, math
        >>> cube_root = bellhop.pure_callback(math.cbrt, float)
        >>> cube_root(8.0)
        Array(2., dtype=float64)

    Annotate the variable to type its calls in programs:
    ``cube_root: PureCallback[[jax.Array], jax.Array] = pure_callback(math.cbrt, float)``.
    """

    _callback_type: ClassVar[Pure] = PURE

    def __init__(
        # Without an annotation of the variable, the argument types are unknown.
        self: "PureCallback[..., Any]",
        function: Callable[..., Any],
        result_type: Any,
        vmap_method: str = "sequential",
    ) -> None:
        """Create a callback without derivative rules.

        Args:
            function: the user's function.
            result_type: type of its result, or ``infer``, as for ``pure_callback``.
            vmap_method: behaviour under ``vmap``, as for ``pure_callback``.
        """
        functools.update_wrapper(self, function)
        self.__name__ = function_name(function)
        check_vmap_method(vmap_method, self._described)
        self._function = function
        self._vmap_method = vmap_method
        self._declared = None if result_type is infer else result_avals(function, result_type)
        self._inferred: dict[Any, Results] = {}
        self._fwd: Callable[..., Any] | None = None
        self._bwd: Callable[..., Any] | None = None
        self._jvp: Callable[..., Any] | None = None
        self._linear: LinearCall | None = None

    if not TYPE_CHECKING:

        @public_function
        def __getattr__(self, name: str) -> Any:
            """Raise `AttributeError`; for ``defvjp`` and ``defjvp`` of JAX, name Bellhop's methods.

            For example, the error for ``defvjp`` names ``fwd`` and ``bwd``.
            """
            message = f"'{type(self).__name__}' object has no attribute '{name}'"
            if name in _RULES_OF_JAX:
                message += f" (of jax.custom_vjp and custom_jvp). {_RULES_OF_JAX[name]}"
            raise AttributeError(message, name=name, obj=self)

    def __repr__(self) -> str:
        return f"<{self._described}>"

    @property
    def _described(self) -> str:
        """Name of the callback in errors, such as ``"pure_callback 'f'"``."""
        return f"{self._callback_type.name} '{self.__name__}'"

    @property
    def _described_call(self) -> str:
        """Name of the callback with the user's line, for errors of a call."""
        return f"{self._described} (called from {user_site()})"

    def _describe_missing_call(self) -> str:
        """Return the error text for a callback that is used as an array, not called."""
        return describe_uncalled_callback(self._described)

    def fwd(self, function: Rule) -> Rule:
        """Register the forward pass of the derivative, which needs ``bwd`` as well.

        Args:
            function: traced; takes the arguments of the callback and returns a pair: its result,
                and residuals for the backward pass: None, any pytree of arrays, or a pullback from
                ``jax.vjp``.

        Returns:
            the function itself, so this is a decorator.

        Raises:
            TypeError: if `function` is not callable, or the callback has a transpose.

        Example:
            >>> import bellhop, math
            >>> square = bellhop.pure_callback(lambda x: x * x, float)
            >>> @square.fwd
            ... def square_fwd(x):
            ...     return square(x), x  # the result, and the residual
            >>> @square.bwd
            ... def square_bwd(x, cotangent):
            ...     return 2 * x * cotangent
            >>> bellhop.grad(square)(3.0)
            Array(6., dtype=float64)
        """
        self._fwd = self._checked_rule(function, "fwd")
        return function

    def bwd(self, function: Rule) -> Rule:
        """Register the backward pass of the derivative, which needs ``fwd`` as well.

        Args:
            function: traced; takes the residuals and the cotangent of the result, and returns a
                tuple with the cotangent of each argument, or for a single argument the bare
                cotangent; None is zero.

        Returns:
            the function itself, so this is a decorator.

        Raises:
            TypeError: if `function` is not callable, or the callback has a transpose.

        Example:
            >>> import bellhop
            >>> product = bellhop.pure_callback(lambda x, y: x * y, float)
            >>> @product.fwd
            ... def product_fwd(x, y):
            ...     return product(x, y), (x, y)
            >>> @product.bwd
            ... def product_bwd(residuals, cotangent):
            ...     x, y = residuals
            ...     return y * cotangent, x * cotangent
            >>> bellhop.grad(product, argnums=1)(3.0, 4.0)
            Array(3., dtype=float64)
        """
        self._bwd = self._checked_rule(function, "bwd")
        return function

    def jvp(self, function: Rule) -> Rule:
        """Register a forward-mode rule, which defines reverse mode and higher orders too.

        If ``fwd`` and ``bwd`` are registered as well, reverse mode uses them.

        Args:
            function: traced; takes the tuple of arguments and the tuple of their tangents, and
                returns a pair: the callback's result, and its tangent, which must be linear in the
                tangents.  It may call the callback itself.  Integer arguments have tangents of
                dtype float0, which it must not use; tangents of integer results are dropped.

        Returns:
            the function itself, so this is a decorator.

        Raises:
            TypeError: if `function` is not callable, or the callback has a transpose.

        Example:
            >>> import bellhop, jax, numpy as np
            >>> @bellhop.pure_callback
            ... def sine(x) -> float:
            ...     return np.sin(x)
            >>> @sine.jvp
            ... def sine_jvp(primals, tangents):
            ...     (x,), (dx,) = primals, tangents
            ...     return sine(x), jax.numpy.cos(x) * dx
            >>> bellhop.qjit(jax.grad(sine))(0.0)
            Array(1., dtype=float64)
        """
        self._jvp = self._checked_rule(function, "jvp")
        return function

    @overload
    def transpose(self, function: Rule, *, argnums: int | Sequence[int] | None = None) -> Rule: ...
    @overload
    def transpose(
        self,
        function: None = None,
        *,
        argnums: int | Sequence[int] | None = None,
        symmetric: Literal[False] = False,
    ) -> Callable[[Rule], Rule]: ...
    @overload
    def transpose(
        self,
        function: None = None,
        *,
        argnums: int | Sequence[int] | None = None,
        symmetric: Literal[True],
    ) -> "PureCallback[P, R]": ...
    def transpose(
        self,
        function: Callable[..., Any] | None = None,
        *,
        argnums: int | Sequence[int] | None = None,
        symmetric: bool = False,
    ) -> Any:
        """Declare that the callback is linear, and register its transpose.

        The callback must be linear in the arguments `argnums` together, for fixed values of its
        other arguments. Forward and reverse mode, derivatives of any order,
        ``jax.linear_transpose``, and solvers such as ``jax.scipy.sparse.linalg.cg`` follow from
        the transpose. ``bellhop.debug.check_transpose`` tests the pair.

        Args:
            function: traced; takes the arguments that are not linear, then the cotangent of the
                result, and returns the cotangent of the linear argument, or a tuple of cotangents
                if there are several. For complex values this is the transpose, not the adjoint.
            argnums: the positions of the linear arguments; None for all arguments.
            symmetric: True if the callback, which has one linear argument, is its own transpose.

        Returns:
            the function itself, so this is a decorator; with ``symmetric=True`` the callback; with
            neither, a decorator for the function.

        Raises:
            TypeError: if both `function` and `symmetric` are given, `function` is not callable, or
                the callback has a ``fwd``, ``bwd`` or ``jvp`` rule.

        Example:
            >>> import bellhop, jax, numpy as np
            >>> matrix = np.array([[1.0, 2.0], [3.0, 4.0]])
            >>> vector = jax.ShapeDtypeStruct((2,), float)
            >>> apply = bellhop.pure_callback(lambda x: matrix @ x, vector)
            >>> apply_transpose = bellhop.pure_callback(lambda y: matrix.T @ y, vector)
            >>> @apply.transpose
            ... def _(cotangent):
            ...     return apply_transpose(cotangent)
            >>> bellhop.qjit(jax.grad(lambda x: apply(x)[0]))(np.ones(2))
            Array([1., 2.], dtype=float64)
        """
        if symmetric:
            if function is not None:
                raise TypeError(
                    f"{self._described}: transpose got a function and symmetric=True, expected "
                    "one of them. Leave out one of them."
                )
            self._set_linear(argnums, None)
            return self
        if function is None:
            return functools.partial(self.transpose, argnums=argnums)
        rule = wrap_rule(function, "transpose", self._described)
        self._set_linear(argnums, rule)
        return function

    def _set_linear(self, argnums: Any, rule: Callable[..., Any] | None) -> None:
        """Declare this callback linear, so that its transpose defines all derivatives.

        Args:
            argnums: positions of the linear arguments; None for all.
            rule: the wrapped transpose; None if the callback is its own transpose.

        Raises:
            TypeError: if the callback has a ``fwd``, ``bwd`` or ``jvp`` rule.
        """
        for name in ("fwd", "bwd", "jvp"):
            if getattr(self, f"_{name}") is not None:
                raise TypeError(self._two_derivatives(name))
        label = self.__name__, self._callback_type.name
        self._linear = LinearCall(self._described, label, argnums, rule)

    def _checked_rule(self, function: Rule, name: str) -> Rule:
        """Wrap a user's ``fwd``, ``bwd`` or ``jvp`` rule so that its errors name the rule.

        Raises:
            TypeError: if the callback has a transpose, or `function` is not callable.
        """
        if self._linear is not None:
            raise TypeError(self._two_derivatives(name))
        return cast(Rule, wrap_rule(function, name, self._described))

    def _two_derivatives(self, name: str) -> str:
        """Return the error text for a callback with both a transpose and the rule ``name``."""
        return (
            f"{self._described} has a transpose and a {name} rule, expected one derivative. "
            f"Remove the {name} rule: the transpose defines all derivatives."
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function with traced or concrete arguments.

        Outside of tracing, arguments that are not JAX types are passed to the Python function
        directly.
        """
        try:
            if must_run_in_python(args, kwargs):
                return cast(R, self._function(*args, **kwargs))
            if self._linear is not None:
                ordered = self._order_arguments(args, kwargs)
                flatten_arguments(self._callback_type.name, self._function, ordered, {})
                return cast(R, self._linear(ordered, lambda *args: self._call(args, {})))
            has_half = (self._fwd is None) != (self._bwd is None)
            if has_half or (self._jvp is None and self._fwd is None):
                return cast(R, self._call(args, kwargs))
            ordered = self._order_arguments(args, kwargs)
            # Raises for arguments that are not arrays.
            flatten_arguments(self._callback_type.name, self._function, ordered, {})
            # Inside `shard_map`, rules need arguments that vary over the same mesh axes.
            ordered = vary_like(ordered, ordered)
            return cast(R, self._differentiable(self._results(ordered, {}))(*ordered))
        except Exception as error:
            hide_frames(error)
            raise

    def __get__(self, instance: object, owner: type | None = None) -> "PureCallback[..., R]":
        """Bind the function and its rules to an instance, if the callback is a class attribute."""
        if instance is None:
            return self
        method = self._duplicate()
        for name in ("_function", "_fwd", "_bwd", "_jvp"):
            setattr(method, name, bind_method(getattr(self, name), instance, owner))
        if self._linear is not None:
            rule: Any = self._linear.rule
            bound = bind_method(rule, instance, owner)
            method._linear = dataclasses.replace(self._linear, rule=bound)
        method._inferred = {}
        return method

    def _order_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Convert the keyword arguments of a call to positional ones, for derivative rules.

        Defaults are inserted only before the last passed argument. For ``f(x, y=1.0, z=2.0)``,
        ``f(3.0, z=4.0)`` gives ``(3.0, 1.0, 4.0)``, and ``f(3.0, y=4.0)`` gives ``(3.0, 4.0)``.

        Raises:
            TypeError: for keyword arguments that the signature does not accept, and for any keyword
                argument if the function has keyword-only parameters, or collects one in
                ``**kwargs``.
        """
        if not kwargs:
            return args
        check_call(self._described_call, self._function, len(args), kwargs)
        bound = inspect.signature(self._function).bind(*args, **kwargs)
        given = list(bound.arguments)[-1]
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(
                f"{self._described_call} has a derivative rule and keyword-only arguments "
                f"({', '.join(bound.kwargs)}), expected positional ones. Make them "
                "parameters before the * or ** of the function's signature."
            )
        return bound.args[: list(bound.arguments).index(given) + 1]

    def _results(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Results:
        """Return the result's types and structure: declared, or inferred by a call with zeros."""
        if self._declared is not None:
            return self._declared
        return infer_results(self._callback_type.name, self._function, args, kwargs, self._inferred)

    def _call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call the function without its derivative rules; return its result.

        A derivative of this call raises an error, unless all results are integers or booleans.
        """
        options = {
            "missing_rule": self._missing_rule(),
            "vmap_method": self._vmap_method,
            "inferred": self._declared is None,
        }
        return self._callback_type.call(
            self._function, args, kwargs, self._results(args, kwargs), **options
        )

    def _missing_rule(self) -> str | None:
        """Return the name of the derivative rule to mention in errors, or None.

        ``"fwd"`` or ``"bwd"`` if only its counterpart is registered; ``"transpose"`` for a linear
        callback, which has no derivative in its other arguments.
        """
        if self._linear is not None:
            return "transpose"
        halves = self._fwd is not None, self._bwd is not None
        return {(True, False): "bwd", (False, True): "fwd"}.get(halves)

    def _differentiable(self, results: Results) -> Callable[..., Any]:
        """Make a ``jax.custom_jvp`` function that calls the callback and has the user's rules.

        Args:
            results: types of the leaves of the callback's result, and its ``PyTreeDef``.
        """
        avals, tree = results
        call = jax.custom_jvp(lambda *args: self._call(args, {}))
        user_rule: Any = self._jvp
        if self._fwd is not None and self._bwd is not None:
            reverse = CustomVjpRule(
                self.__name__,
                self._described,
                user_site(),
                tree,
                avals,
                self._fwd,
                self._bwd,
                self._jvp,
            )
            rule, name, user_rule = reverse.differentiate, "fwd", self._fwd
        else:
            rule, name = functools.partial(self._forward_rule, results), "jvp"

        def differentiate(primals: PyTree, tangents: PyTree) -> tuple[Any, Any]:
            """Call the user's rule; return result and tangent: the callback's JVP rule."""
            result, tangent = rule(primals, tangents)
            what = describe_rule(name, self._described, user_rule)
            result = check_result(result, what, tree, avals)
            return vary_like(primals, result), vary_like(primals, tangent)

        call.defjvp(differentiate, symbolic_zeros=name == "fwd")
        return call

    def _forward_rule(self, results: Results, primals: PyTree, tangents: PyTree) -> tuple[Any, Any]:
        """Call the user's ``jvp`` rule; check and return the pair of result and tangent.

        Args:
            results: types of the leaves of the callback's result, and its ``PyTreeDef``.
            primals: tuple of the callback's arguments.
            tangents: tuple of their tangents.
        """
        avals, tree = results
        assert self._jvp is not None
        what = describe_rule("jvp", self._described, self._jvp)
        result, tangent = check_pair(
            self._jvp(primals, tangents), what, "the tangent of the result"
        )
        return result, check_tangent(tangent, what, tree, avals)


@overload
def pure_callback(
    callback_fn: Callable[..., Any],
    result_type: Any = MISSING,
    *,
    vmap_method: str | None = None,
    sharding: Any = None,
) -> PureCallback[..., Any]: ...
@overload
def pure_callback(
    callback_fn: Callable[..., Any],
    result_type: Any,
    *args: Any,
    vmap_method: str | None = None,
    sharding: Any = None,
    **kwargs: Any,
) -> Any: ...
@overload
def pure_callback(
    callback_fn: None = None, result_type: Any = MISSING, *, vmap_method: str | None = None
) -> Callable[[Callable[..., Any]], PureCallback[..., Any]]: ...
@overload
def pure_callback(
    *,
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    vmap_method: str | None = None,
    sharding: Any = None,
    **kwargs: Any,
) -> Any: ...
@public_function
def pure_callback(
    callback_fn: Callable[..., Any] | None = None,
    result_type: Any = MISSING,
    *args: Any,
    vmap_method: str | None = None,
    sharding: Any = None,
    **kwargs: Any,
) -> Any:
    """Make a Python function without side effects callable from compiled programs.

    The function must be pure: the compiler may drop a call whose result is not used, and merge
    equal calls.  The function gets read-only NumPy arrays, which it may keep.  Its result must have
    the declared shapes and dtypes.  Only Python scalars are converted, as NumPy does in
    assignments: a ``float`` beyond the range of the dtype becomes infinite, an ``int`` raises
    ``OverflowError``.  Exceptions of the function reach the caller of the program.

    Args:
        callback_fn: the function.  Its arguments and result are pytrees of arrays.
        result_type: type of its result; if omitted, its return annotation. A Python scalar type, a
            dtype, ``jax.ShapeDtypeStruct``, an example array, or a pytree of these.
            ``bellhop.infer``: the type of its result for zeros; the function is called with zeros
            once for each signature, while the program is traced.
        vmap_method: behaviour under ``vmap``.  ``"sequential"``, or None: a loop calls the function
            for each batch element, in order; ``"sequential_unrolled"``: one call for each element,
            in any order, without a loop; ``"sequential_threadpool"``: in any order, on up to 32
            threads at once, each with a copy of the context (``contextvars``) of the waiting
            thread. The following methods make one call with the whole batch: results and mapped
            arguments have the batch axis first, and an argument that is not mapped has a first
            axis of length 1 (``"expand_dims"``), of full length (``"broadcast_all"``), or no such
            axis (``"legacy_vectorized"``).
        args: if present, the function is called with them at once, as in ``jax.pure_callback``.
        sharding: accepted for compatibility with JAX; it may name one device.
        kwargs: keyword arguments for the function, used like ``args``.  ``callback`` and
            ``result_shape_dtypes`` are JAX's names for ``callback_fn`` and ``result_type``; with
            them, the function is called at once.

    Returns:
        a ``PureCallback``, whose methods ``fwd``, ``bwd``, ``jvp`` and ``transpose`` register
        derivatives; with arguments, the result of the call; without ``callback_fn``, a decorator.

    Raises:
        ResultTypeError: (a TypeError) if the result type is missing, or does not determine shapes
            and dtypes.
        TypeError: if ``callback_fn`` is not callable; when traced, if the function does not accept
            the arguments of a call.
        ValueError: if ``vmap_method`` is unknown.
        NotImplementedError: for a ``sharding`` over several devices.
        DifferentiableCompileError: when traced, if a call is differentiated and has no derivative.

    Example:
        >>> import bellhop, scipy.special
        >>> @bellhop.pure_callback
        ... def gamma(x) -> float:
        ...     return scipy.special.gamma(x)
        >>> @gamma.fwd
        ... def gamma_fwd(x):
        ...     return gamma(x), x
        >>> @gamma.bwd
        ... def gamma_bwd(x, dy):
        ...     return bellhop.pure_callback(
        ...         lambda x: scipy.special.gamma(x) * scipy.special.digamma(x), float)(x) * dy
        >>> bellhop.qjit(bellhop.grad(gamma))(5.0)
        Array(36.14682404, dtype=float64)
    """
    style = parse_call("pure_callback", callback_fn, result_type, args, kwargs, sharding)
    callback_fn = style.function
    if callback_fn is None:
        return functools.partial(
            pure_callback, result_type=style.result_type, vmap_method=vmap_method
        )
    if style.result_type is MISSING:
        style.result_type = annotated_result_type(callback_fn)
    method = "sequential" if vmap_method is None else vmap_method
    return style.apply(PureCallback(callback_fn, style.result_type, method))
