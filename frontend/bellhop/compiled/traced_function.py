"""A user's function as qjit sees it: what it is called, and how a program is traced of it."""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from bellhop._jax.private import refuses_traced_size
from bellhop.base.devices import Target
from bellhop.base.flat import restored_arguments
from bellhop.base.rewriting import interpret
from bellhop.base.signature import (
    check_arrays,
    check_not_deleted,
    describe,
    leaf_signature,
    result_arrays,
)
from bellhop.base.source import definition_site, function_name, site_of_error
from bellhop.base.static_arguments import Static, StaticArguments
from bellhop.base.types import Args, Kwargs, Operand, PyTree
from bellhop.compiled.frames import frames_in_one_piece
from bellhop.compiled.programs import Made
from bellhop.compiled.result_targets import result_targets
from bellhop.compiler.compile import compile_program
from bellhop.errors import CompileError
from bellhop.run.jit_options import JitOptions
from bellhop.run.unfinished import placed
from bellhop.tracing.options import CompileOptions
from bellhop.tracing.program_order import in_program_order
from bellhop.tracing.state import ASKS_FOR_VALUE, compiling
from bellhop.transformations.traced import traced
from bellhop.transformations.transformed import ON_HOST
from bellhop_runtime import CallbackTable


class TracedFunction:
    """A function that programs are traced of.

    Attributes:
        static: which arguments are part of the program; false where none is.
        converted: what is traced: the function, unless autograph converted it.
        jit_options: the options of the ``jax.jit`` that its programs are embedded into.
        name: what it is called.
        site: ``file:line`` of its definition.
    """

    def __init__(self, function: Callable[..., Any], options: CompileOptions) -> None:
        """Convert the function, if the options say so.

        Args:
            function: the user's.
            options: how it is compiled.
        """
        self._function = function
        self._options = options
        self.converted = function
        if options.autograph:
            # Not before: it imports diastatic-malt.
            from bellhop.autograph.run_autograph import run_autograph

            self.converted = run_autograph(function)
        self.static = StaticArguments(function, options.static_argnums, options.static_argnames)
        self.jit_options = JitOptions(
            self.static.donated(options.donate_argnums, options.donate_argnames),
            keep_unused=options.keep_unused,
            compiler_options=options.compiler_options or {},
        )
        self.name = getattr(function, "__name__", "program")
        self.site = definition_site(function)

    @property
    def where(self) -> str:
        """The function and its line, for errors."""
        return f"'{function_name(self._function)}' ({self.site})"

    def under_transformations(self) -> Any:
        """Return the function as a ``jax.jit`` of its own, of static and other arguments.

        Its calls with effects are in program order, as in a program.
        """

        def transformed(static: Static, /, *args: Any, **kwargs: Any) -> Any:
            leaves, in_tree = jax.tree.flatten((args, kwargs))
            out_tree = None

            def flat_function(*leaves: Operand) -> list[Any]:
                nonlocal out_tree
                result = self.run_uncompiled(static, *jax.tree.unflatten(in_tree, leaves))
                arrays, out_tree = result_arrays(f"qjit of {self.where}", result)
                return arrays

            closed = in_program_order(jax.make_jaxpr(flat_function)(*leaves))
            return jax.tree.unflatten(out_tree, interpret(closed, {}, *leaves))

        transformed.__name__ = self.name + ON_HOST
        return jax.jit(transformed)

    def run_uncompiled(self, static: Static, args: Args, kwargs: Kwargs) -> Any:
        """Run the function itself."""
        args, kwargs = static.merge(args, kwargs)
        return traced(self.converted)(*args, **kwargs)

    def run_op_by_op(self, static: Static, args: Args, kwargs: Kwargs) -> Any:
        """Run one operation after another, as ``jax.disable_jit`` asks."""
        return self.placed(self.run_uncompiled(static, args, kwargs))

    def placed(self, result: PyTree) -> Any:
        """Return a result with its arrays on the devices that they are asked for on."""
        if self._options.out_shardings is None:
            return result
        leaves, tree = jax.tree.flatten(result)
        return jax.tree.unflatten(tree, placed(leaves, self._result_targets(leaves, tree)))

    def _result_targets(self, leaves: Sequence[Any], tree: Any) -> tuple[Target | None, ...]:
        return result_targets(self._function, self._options.out_shardings, leaves, tree)

    def refuse(self, args: Args, kwargs: Kwargs, *, are_values: bool = False) -> None:
        """Say what is wrong with arguments that JAX refused, where it is their type.

        Args:
            args: positional arguments.
            kwargs: keyword arguments.
            are_values: whether they are arguments of a call, where types of arrays are wrong too.
        """
        names = self.static.names_of_others()
        check_arrays(f"qjit of {self.where}", names, args, kwargs, are_values=are_values)

    def refuse_deleted(self, args: Args, kwargs: Kwargs, failed: Exception) -> None:
        """Say which argument has no memory any more, where that may be why a run failed."""
        names = self.static.names_of_others()
        check_not_deleted(f"qjit of {self.where}", names, args, kwargs, failed)

    def _explain(self, error: Exception) -> None:
        """Say where in the function a value is asked for that only the run knows."""
        if isinstance(error, ASKS_FOR_VALUE) or refuses_traced_size(error):
            instead = (
                "Leave it to the program: qml.cond for if, or qjit(autograph=True); &, | and ~ for "
                "and, or and not, of outcomes of measurements too; jnp.maximum for max, jnp.isin "
                "for in. What comes of an argument alone may be made static: "
                "qjit(static_argnums=...)"
                if isinstance(error, jax.errors.TracerBoolConversionError)
                else "Make it static: qjit(static_argnums=...)"
            )
            error.add_note(
                f"bellhop: in qjit of {self.where}, at {site_of_error(error)}, Python asks for a "
                f"value that the program computes. {instead}; or see 'Values that the program "
                "computes' in the guide, doc/guide/sharp-bits."
            )

    @frames_in_one_piece
    def make(self, static: Static, args: Args, kwargs: Kwargs, table: CallbackTable) -> Made:
        """Trace the program of a signature, and compile it as far as XLA.

        Args:
            static: the arguments that are part of it.
            args: the types of others with a position, each a ``Flat``.
            kwargs: the types of those with a name, likewise.
            table: gets its callbacks.
        """
        leaves, in_tree = jax.tree.flatten((args, kwargs))
        for leaf in leaves:
            if not all(isinstance(size, int) for size in leaf.shape):
                raise CompileError(
                    f"qjit of {self.where} is asked for a program of {describe([leaf])}, and "
                    "programs have fixed shapes. Compile it for each size that is called, "
                    "f.jit_compile(args), or pad to one: f.save(path) writes all of them."
                )
        out_tree = None
        out_targets: tuple[Target | None, ...] = ()

        def flat_function(*leaves: Operand) -> list[Any]:
            nonlocal out_tree, out_targets
            given = restored_arguments(*jax.tree.unflatten(in_tree, leaves))
            args, kwargs = static.merge(*given)
            with compiling(self._options) as seeds:
                try:
                    result = traced(self.converted)(*args, **kwargs)
                except (TypeError, IndexError) as error:
                    self._explain(error)
                    raise
            if seeds:
                table.seed_unless_given(seeds[0])
            arrays, out_tree = result_arrays(f"qjit of {self.where}", result)
            out_targets = self._result_targets(arrays, out_tree)
            return arrays

        # JAX's errors name the function and its arguments.
        flat_function.__name__ = self.name
        flat_function.__wrapped__ = self.converted  # type: ignore[attr-defined]
        flat_function.__signature__ = leaf_signature(  # type: ignore[attr-defined]
            self.static.names_of_others(), args, kwargs
        )
        keep_stages = self._options.intermediate_level > 0
        program = compile_program(
            flat_function,
            leaves,
            table,
            out_targets=lambda: out_targets,
            keep_stages=keep_stages,
            concurrent=self._options.concurrent_callbacks,
        )
        return Made(program, (static, args, kwargs), out_tree)
