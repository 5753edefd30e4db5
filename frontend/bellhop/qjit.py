"""qjit: compile a hybrid function, once for each signature."""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, Generic, ParamSpec, TypeVar, overload

import jax
import jax.numpy as jnp

from bellhop._jax_compat import run_compiled, trace_state_clean
from bellhop.errors import CompileError
from bellhop.failures import RUN_ERRORS, python_failure
from bellhop.lowering import Code, Program, compile_program, host_device, table_handle
from bellhop.program import program_p
from bellhop.tracing import traced
from bellhop_runtime import CallbackTable

P = ParamSpec("P")
R = TypeVar("R")


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
        self._table = CallbackTable(published=False)
        # Committed to the CPU: the program itself runs there, whatever JAX's default is.
        self._handle = jax.device_put(table_handle(self._table), host_device())
        self._jit = _embedded(self)
        # Threads in the first run of a signature, and whether it has been traced.
        self._first_runs: dict[int, threading.Event] = {}
        self._aside = threading.RLock()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function; compile it first where the signature is new."""
        if not trace_state_clean():
            return traced(self.original_function)(*args, **kwargs)
        try:
            run = self._run_aside if self._first_runs else self._run
            result = run(args, kwargs)
            if type(result) is _EffectsOnly:
                return jax.tree.unflatten(result.tree, ())
            return result
        except RUN_ERRORS as error:
            failure = python_failure(error)
            if failure is None:
                raise
        # Outside the handler, so that XLA's account of it is not the context.
        raise failure

    def _run(self, args: Any, kwargs: Any) -> Any:
        try:
            return self._jit(self._handle, args, kwargs)
        except RecursionError as error:
            if "Recursively calling jit" not in str(error):
                raise
        finally:
            if self._first_runs:
                self._first_runs.pop(threading.get_ident(), None)
        return self._run_aside(args, kwargs)

    def _run_aside(self, args: Any, kwargs: Any) -> Any:
        """Run outside JAX's cache of fast calls.

        JAX holds the entry of a signature from before it is traced until the end of its
        first run: a callback that calls the function again would be refused there, and one
        that waits for another thread that does would wait for ever.
        """
        mine = threading.get_ident()
        for thread, is_traced in list(self._first_runs.items()):
            if thread != mine:
                is_traced.wait()
        with self._aside:
            executable = self._lower(args, kwargs).compile()
        return run_compiled(executable, self._handle, args, kwargs)

    def _lower(self, args: Any, kwargs: Any) -> Any:
        is_nested = threading.get_ident() in self._first_runs
        try:
            return self._jit.lower(self._handle, args, kwargs)
        finally:
            if not is_nested:
                self._first_runs.pop(threading.get_ident(), None)

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
        return self._lower(args, kwargs)

    def _program(self) -> Program:
        if self._newest is None:
            raise CompileError(
                f"{self!r} has not been compiled: call it first, since its program depends on "
                "the shapes and dtypes of the arguments."
            )
        return self._newest

    @contextlib.contextmanager
    def _first_run(self) -> Iterator[None]:
        is_traced = self._first_runs.setdefault(threading.get_ident(), threading.Event())
        try:
            yield
        finally:
            is_traced.set()

    def _compile(self, args: Any, kwargs: Any) -> tuple[Code, Any]:
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
            jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type) for aval in avals
        ]
        program = compile_program(flat_function, specs, self._table, keep_stages=self._keep_stages)
        self._newest = program
        return program.code, out_tree


class _EffectsOnly:
    """What a program without results returns inside its ``jax.jit``.

    JAX drops a program none of whose results is used, so ``kept`` goes along; ``tree`` is
    the structure of what the function returned.
    """

    def __init__(self, tree: Any, kept: Any) -> None:
        self.tree = tree
        self.kept = kept


jax.tree_util.register_pytree_node(
    _EffectsOnly, lambda effects: (effects.kept, effects.tree), _EffectsOnly
)


def _embedded(qjit_function: QJIT[Any, Any]) -> Any:
    """Return the ``jax.jit`` that a qjit function's programs are embedded into.

    JAX traces it for each new signature, and that is when a program is made.
    """

    def embedded(handle: jax.Array, args: Any, kwargs: Any) -> Any:
        with qjit_function._first_run():
            code, out_tree = qjit_function._compile(args, kwargs)
        leaves = jax.tree.leaves((args, kwargs))
        results = program_p.bind(*leaves, handle, code=code)
        if not code.out_avals:
            return _EffectsOnly(out_tree, results)
        return jax.tree.unflatten(out_tree, results)

    embedded.__name__ = getattr(qjit_function.original_function, "__name__", "program")
    return jax.jit(embedded)


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
