"""qjit: compile a hybrid function, once for each signature."""

import functools
import re
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, overload

import jax
import jax.numpy as jnp

from bellhop._jax_compat import trace_state_clean
from bellhop.errors import CompileError
from bellhop.lowering import Program, compile_program, host_device, table_handle
from bellhop.program import program_p
from bellhop.tracing import traced
from bellhop_runtime import CallbackTable, release_run, take_failure

P = ParamSpec("P")
R = TypeVar("R")

_RUN = re.compile(r"\[bellhop run (-?\d+)\]")


class QJIT(Generic[P, R]):
    """A function that is compiled when it is called with a new signature.

    A signature is the shapes, dtypes and pytree structure of the arguments; new values
    never compile anything.  Under a JAX transformation the function is traced through, so
    it can be differentiated, batched, and called in ``jax.jit`` and in other qjit functions.

    Attributes:
        original_function: the function that was decorated.
        jaxpr: the traced function of the newest program.
        mlir: its module as lowered, in the callback and quantum dialects.
        mlir_opt: its module after the optimising passes.
    """

    def __init__(self, function: Callable[P, R], *, keep_stages: bool = False) -> None:
        functools.update_wrapper(self, function)
        self.original_function = function
        self._keep_stages = keep_stages
        self._newest: Program | None = None
        self._table = CallbackTable()
        # Committed to the CPU: the program itself runs there, whatever JAX's default is.
        self._handle = jax.device_put(table_handle(self._table), host_device())
        self._jit = _embedded(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function; compile it first where the signature is new."""
        if not trace_state_clean():
            return traced(self.original_function)(*args, **kwargs)
        try:
            return self._jit(self._handle, args, kwargs)
        except jax.errors.JaxRuntimeError as error:
            failure = _python_failure(error)
            if failure is None:
                raise
        # Outside the handler, so that XLA's account of it is not the context.
        raise failure

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<qjit {getattr(self, '__qualname__', repr(self.original_function))}>"

    @property
    def jaxpr(self) -> Any:
        """The traced function of the newest program."""
        return self._program().jaxpr

    @property
    def mlir(self) -> str:
        """The newest program in the callback and quantum dialects."""
        return self._program().mlir

    @property
    def mlir_opt(self) -> str:
        """The newest program after the optimising passes."""
        return self._program().mlir_opt

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Return JAX's ``Lowered`` of the program for a signature."""
        return self._jit.lower(self._handle, args, kwargs)

    def _program(self) -> Program:
        if self._newest is None:
            raise CompileError(
                f"{self!r} has not been compiled: call it first, since its program depends on "
                "the shapes and dtypes of the arguments."
            )
        return self._newest

    def _compile(self, args: Any, kwargs: Any) -> tuple[Program, Any]:
        leaves, in_tree = jax.tree.flatten((args, kwargs))
        out_tree = None

        def flat_function(*leaves: Any) -> list[Any]:
            nonlocal out_tree
            args, kwargs = jax.tree.unflatten(in_tree, leaves)
            result = traced(self.original_function)(*args, **kwargs)
            flat, out_tree = jax.tree.flatten(result)
            return [jnp.asarray(leaf) if not hasattr(leaf, "dtype") else leaf for leaf in flat]

        flat_function.__name__ = getattr(self.original_function, "__name__", "program")
        avals = [jax.typeof(leaf) for leaf in leaves]
        specs = [
            jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
            for aval in avals
        ]
        program = compile_program(flat_function, specs, keep_stages=self._keep_stages)
        self._table.add_program(program.key, program.callbacks)
        self._newest = program
        return program, out_tree


def _embedded(qjit_function: QJIT[Any, Any]) -> Any:
    """Return the ``jax.jit`` that a qjit function's programs are embedded into.

    JAX traces it for each new signature, and that is when a program is made.
    """

    def embedded(handle: jax.Array, args: Any, kwargs: Any) -> Any:
        program, out_tree = qjit_function._compile(args, kwargs)
        leaves = jax.tree.leaves((args, kwargs))
        results = program_p.bind(*leaves, handle, program=program, out_avals=program.out_avals)
        return jax.tree.unflatten(out_tree, results)

    embedded.__name__ = getattr(qjit_function.original_function, "__name__", "program")
    return jax.jit(embedded)


def _python_failure(error: jax.errors.JaxRuntimeError) -> BaseException | None:
    match = _RUN.search(str(error))
    if match is None:
        return None
    run_id = int(match[1])
    # What the run did not get to: circuits that were open when the callback failed.
    release_run(run_id)
    return take_failure(run_id)


@overload
def qjit(fn: Callable[P, R], *, keep_intermediate: bool = False) -> QJIT[P, R]: ...
@overload
def qjit(
    fn: None = None, *, keep_intermediate: bool = False
) -> Callable[[Callable[P, R]], QJIT[P, R]]: ...
def qjit(fn: Any = None, *, keep_intermediate: bool = False) -> Any:
    """Compile a hybrid quantum-classical function.

    Args:
        fn: the function: JAX operations, QNodes, callbacks, accelerated regions.  Its
            arguments and results are pytrees of arrays and numbers.
        keep_intermediate: keep the module after every pass, for
            ``bellhop.debug.get_compilation_stage``.

    Returns:
        a callable ``QJIT``; without ``fn``, a decorator.

    Raises:
        TypeError: where ``fn`` cannot be called.

    Example:
        >>> import bellhop
        >>> @bellhop.qjit
        ... def f(x):
        ...     return x + 1
        >>> f(1.0)
        Array(2., dtype=float64)
    """
    if fn is None:
        return functools.partial(qjit, keep_intermediate=keep_intermediate)
    if not callable(fn):
        raise TypeError(f"qjit takes a function, got {fn!r} of type {type(fn).__name__}.")
    return QJIT(fn, keep_stages=keep_intermediate)
