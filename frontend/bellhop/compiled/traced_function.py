"""A user's function as qjit traces it."""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from bellhop.arguments.accepted_arguments import check_not_transformation
from bellhop.arguments.donation_errors import check_not_deleted, check_not_passed_twice
from bellhop.arguments.flat_tree import unflatten_call
from bellhop.arguments.signature import (
    check_arrays,
    describe_leaves,
    flatten_result,
    is_rejected_array,
    make_leaf_signature,
)
from bellhop.arguments.static_arguments import Static, StaticArguments
from bellhop.base.exception_attributes import add_note
from bellhop.base.source import definition_site, function_name, user_site
from bellhop.base.types import Args, Kwargs, Operand, PyTree
from bellhop.compiled.out_shardings import resolve_out_shardings
from bellhop.compiled.program_cache import CachedProgram
from bellhop.compiled.python_frame_memory import preallocate_frames
from bellhop.compiler.compile import compile_program
from bellhop.compiler.jax_callbacks import keep_exceptions
from bellhop.devices.devices import Target
from bellhop.errors import CompileError
from bellhop.execution.jit_options import JitOptions
from bellhop.execution.pending_results import place_on_targets
from bellhop.jaxprs.jaxpr_interpreter import interpret
from bellhop.tracing.options import CompileOptions
from bellhop.tracing.program_order import order_effects
from bellhop.tracing.state import trace_with_options
from bellhop.tracing.traced_value_errors import (
    ADVICE_ON_LEAKS,
    advise_on_traced_value,
    is_request_for_value,
)
from bellhop.transformations.inline_trace import trace_inline
from bellhop.transformations.qjit_under_transforms import ON_HOST
from bellhop_runtime import CallbackTable


class TracedFunction:
    """The user's function with its qjit options, from which programs are traced.

    Each `QJIT` creates one, and keeps it as long as it lives.

    Args:
        function: the user's function; converted by autograph if that option is set.
        options: options of ``qjit``.

    Attributes:
        static: the static arguments, as `StaticArguments`; false if there are none.
        converted: the function that is traced: the original, or its conversion by autograph.
        jit_options: options of the ``jax.jit`` that contains the function's programs.
        name: ``__name__`` of the function; ``"program"`` if it has none.
        site: ``file:line`` of its definition.
    """

    def __init__(self, function: Callable[..., Any], options: CompileOptions) -> None:
        """Read the options; convert the function by autograph if that option is set."""
        self._function = function
        self._options = options
        self.converted = function
        if options.autograph:
            # Imported late, since it imports diastatic-malt.
            from bellhop.autograph.run_autograph import run_autograph

            self.converted = run_autograph(function)
        self.static = StaticArguments(function, options.static_argnums, options.static_argnames)
        self.jit_options = JitOptions(
            self.static.select_donated(options.donate_argnums, options.donate_argnames),
            keep_unused=options.keep_unused,
            compiler_options=options.compiler_options or {},
        )
        self.name = getattr(function, "__name__", "program")
        self.site = definition_site(function)
        # Set for a function from a file, which has its programs' types only.
        self.describe_saved_types: Callable[[], str] | None = None

    @property
    def where(self) -> str:
        """The function and its line, for errors."""
        return f"'{function_name(self._function)}' ({self.site})"

    def make_transformable_jit(self) -> Any:
        """Return a ``jax.jit`` of the function, to call under eager JAX transformations.

        ``jax.grad(f)(x)`` of a qjit function ``f`` calls this ``jax.jit``. Its calls with effects
        are in program order, and exceptions of ``jax.pure_callback`` etc. are kept, as in a qjit
        program.

        Returns:
            a function ``(static, *args, **kwargs)``, where ``static`` holds the values of the
            static arguments, and the rest are the dynamic arguments as the user passed them.
        """

        def run(static: Static, /, *args: Any, **kwargs: Any) -> Any:
            """Run the user's function with its effects in program order.

            JAX traces it, as the function of the ``jax.jit``.

            Args:
                static: the static arguments.
                *args: dynamic positional arguments, pytrees.
                **kwargs: dynamic keyword arguments, pytrees.

            Returns:
                the result of the user's function.
            """
            leaves, in_tree = jax.tree.flatten((args, kwargs))
            out_tree = None

            def flat_function(*leaves: Operand) -> list[Any]:
                nonlocal out_tree
                result = self.run_uncompiled(static, *jax.tree.unflatten(in_tree, leaves))
                arrays, out_tree = flatten_result(f"qjit of {self.where}", result)
                return arrays

            closed = keep_exceptions(order_effects(jax.make_jaxpr(flat_function)(*leaves)))
            return jax.tree.unflatten(out_tree, interpret(closed, {}, *leaves))

        run.__name__ = self.name + ON_HOST
        return jax.jit(run)

    def run_uncompiled(self, static: Static, args: Args, kwargs: Kwargs) -> Any:
        """Call the user's function without compiling it; a surrounding trace includes it.

        `args` and `kwargs` are the dynamic arguments, as the user passed them. `out_shardings` is
        not applied.
        """
        args, kwargs = static.merge(args, kwargs)
        return trace_inline(self.converted)(*args, **kwargs)

    def run_op_by_op(self, static: Static, args: Args, kwargs: Kwargs) -> Any:
        """Run the function eagerly, as ``jax.disable_jit`` requests."""
        return self.place_result(self.run_uncompiled(static, args, kwargs))

    def place_result(self, result: PyTree) -> Any:
        """Move the arrays of a function's result to the devices of ``out_shardings``.

        Args:
            result: the result, a pytree.

        Returns:
            the same pytree with the arrays on their devices; `result` itself if the option is None.
        """
        if self._options.out_shardings is None:
            return result
        leaves, tree = jax.tree.flatten(result)
        return jax.tree.unflatten(
            tree, place_on_targets(leaves, self._resolve_targets(leaves, tree))
        )

    def _resolve_targets(self, leaves: Sequence[Any], tree: Any) -> tuple[Target | None, ...]:
        """Return the device or sharding of each result leaf, from `out_shardings`."""
        return resolve_out_shardings(self._function, self._options.out_shardings, leaves, tree)

    def explain_rejected_arguments(
        self, args: Args, kwargs: Kwargs, *, are_values: bool = False
    ) -> None:
        """Raise a clear error if arguments that JAX rejected are not arrays.

        Nothing happens if all arguments are arrays or numbers; the caller then raises JAX's own
        error again. `args` and `kwargs` are the dynamic arguments; unless `are_values`, they may be
        abstract values such as ``ShapeDtypeStruct``.

        Raises:
            TypeError: naming the first argument that is not an array or a number.
            OverflowError: for an integer that does not fit in any JAX type.
        """
        check_not_transformation("qjit", self._function, args)
        names = self.static.dynamic_names()
        check_arrays(
            f"qjit of {self.where}",
            names,
            args,
            kwargs,
            are_values=are_values,
            describe_types=self.describe_saved_types,
        )

    def check_numpy_arrays(self, args: Args, kwargs: Kwargs) -> None:
        """Raise a clear error for a masked array, or an array in another byte order.

        The byte order is compared with this machine's.

        Raises:
            TypeError: naming the first such argument, or a dictionary whose keys cannot be sorted.
        """
        try:
            is_rejected = any(map(is_rejected_array, jax.tree.leaves((args, kwargs))))
        except ValueError:
            is_rejected = True
        if is_rejected:
            self.explain_rejected_arguments(args, kwargs, are_values=True)

    def check_not_deleted(self, args: Args, kwargs: Kwargs, failed: Exception) -> None:
        """Raise a clear error if an execution failed due to a deleted argument.

        An array is deleted by donation, for instance. Does nothing if no dynamic argument is
        deleted.

        Raises:
            RuntimeError: naming the first deleted argument; `failed` becomes its cause.
        """
        names = self.static.dynamic_names()
        check_not_deleted(f"qjit of {self.where}", names, args, kwargs, failed)

    def explain_leaked_arguments(self, args: Args, kwargs: Kwargs, failed: BaseException) -> None:
        """Add a note to JAX's error for a call whose argument is a leaked tracer.

        Does nothing to other errors, and if no argument is traced.
        """
        if not isinstance(failed, jax.errors.UnexpectedTracerError):
            return
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((args, kwargs))):
            note = f"bellhop: in qjit of {self.where}, called at {user_site()}, an argument is a "
            add_note(failed, f"{note}value of another traced function or loop. {ADVICE_ON_LEAKS}")

    def check_not_passed_twice(self, args: Args, kwargs: Kwargs, failed: Exception) -> None:
        """Raise a clear error if a call failed because a donated array was passed twice.

        Does nothing if no array was passed twice, or none is donated.

        Raises:
            ValueError: naming both arguments; `failed` becomes its cause.
        """
        donated = self.jit_options.donated
        if donated:
            names = self.static.dynamic_names()
            check_not_passed_twice(f"qjit of {self.where}", names, donated, args, kwargs, failed)

    def _explain_traced_value(self, error: Exception) -> None:
        """Add a note to an error of user code that misuses a tracer, or needs its value.

        For example to the error of ``if x > 0``. Does nothing to other errors.
        """
        advice = advise_on_traced_value(error)
        if advice is None:
            return
        note = f"bellhop: in qjit of {self.where}, {advice}"
        if is_request_for_value(error):
            note += (
                " If the value comes from an argument that may be a constant of the program, make "
                "the argument static: qjit(static_argnums=...)."
            )
        add_note(error, note)

    @preallocate_frames
    def make_program(
        self, static: Static, args: Args, kwargs: Kwargs, table: CallbackTable
    ) -> CachedProgram:
        """Trace and optimise the program of a signature.

        Args:
            static: values of the static arguments.
            args: types of positional arguments, each a flattened pytree (``FlatTree``).
            kwargs: types of keyword arguments, as `args`.
            table: receives the Python functions that the program calls, and a seed for its random
                outcomes if the user passed none.

        Returns:
            the program with its signature and result structure.

        Raises:
            CompileError: for symbolic shapes; if a pass or the compilation of a region fails.
        """
        leaves, in_tree = jax.tree.flatten((args, kwargs))
        for leaf in leaves:
            if not all(isinstance(size, int) for size in leaf.shape):
                raise CompileError(
                    f"qjit of {self.where}: symbolic shapes are not supported, got "
                    f"{describe_leaves([leaf])}. Compile the function for each size with "
                    "f.jit_compile(args) (f.save(path) saves all of these programs in one file), "
                    "or pad the arrays to one size."
                )
        out_tree = None
        out_targets: tuple[Target | None, ...] = ()

        def flat_function(*leaves: Operand) -> list[Any]:
            """Call the user's function with flat arguments; return its result's leaves.

            Sets ``out_tree`` and ``out_targets`` of the enclosing method, and the seed of the
            table if a quantum device offers a seed and the user passed none.
            """
            nonlocal out_tree, out_targets
            given = unflatten_call(*jax.tree.unflatten(in_tree, leaves))
            args, kwargs = static.merge(*given)
            with trace_with_options(self._options) as seeds:
                try:
                    result = trace_inline(self.converted)(*args, **kwargs)
                except Exception as error:
                    self._explain_traced_value(error)
                    raise
            if seeds:
                table.seed_unless_given(seeds[0])
            arrays, out_tree = flatten_result(f"qjit of {self.where}", result)
            out_targets = self._resolve_targets(arrays, out_tree)
            return arrays

        # JAX's errors name the function and its arguments.
        flat_function.__name__ = self.name
        flat_function.__wrapped__ = self.converted  # type: ignore[attr-defined]
        flat_function.__signature__ = make_leaf_signature(  # type: ignore[attr-defined]
            self.static.dynamic_names(), args, kwargs
        )
        keep_stages = self._options.intermediate_level > 0
        program = compile_program(
            flat_function,
            # Of a ShapeDtypeStruct, JAX would make such a type several times.
            [jax.core.ShapedArray(leaf.shape, leaf.dtype, leaf.weak_type) for leaf in leaves],
            table,
            out_targets=lambda: out_targets,
            keep_stages=keep_stages,
            concurrent=self._options.concurrent_callbacks,
        )
        return CachedProgram(program, (static, args, kwargs), out_tree)
