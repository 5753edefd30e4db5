"""Call plain ``jax.jit`` functions with Bellhop callbacks or circuits through JAX's C++.

For ``f = jax.jit(g)``, where ``g`` has a Bellhop callback or circuit (microseconds of a call of a
circuit of two qubits, where ``jax.jit`` of an empty function takes 3.3)::

    f(x)
      JAX's C++      no fast-path data, because of the patch ``fast_calls``
      JAX's Python   pjit.cache_miss, _infer_params                              with this patch
      JAX's Python   _run_python_pjit: shardings, layouts, executable       25   a C++ cache:  5

The fast path of ``f`` itself raises ``ValueError(text)`` for any failure, and calls no Python in
which another exception could be raised.  So ``f`` keeps its slow path, and the patch replaces the
second half of that path by a second C++ cache, for flat arguments.  Its ``ValueError(text)``
becomes a ``JaxRuntimeError(text)``, which ``runtime_error`` converts to the original exception.

Replaced: ``pjit._run_python_pjit``.
Versions: 0.10 to 0.12.
Upstream: fast calls that raise ``JaxRuntimeError``.
Issue: jax#34083.
Installed: when a call of Bellhop is first lowered in a plain ``jax.jit``.
Test: ``test_plain_jit_calls.py``.
"""

import operator
import threading
import weakref
from collections.abc import Callable
from typing import Any

import jax
from jax._src import config, core, pjit  # noqa: TID251
from jax._src.interpreters import pxla  # noqa: TID251

from bellhop._jax.fast_dispatch import UnexecutedProgram, make_fast_call
from bellhop._patching import original, patch, replace


class _Compilation(threading.local):
    """State of a thread: whether it compiles a program without executing it.

    `_PlainCall._compile` sets it, and the patch ``fast_calls`` then skips the execution.

    Attributes:
        results: placeholders that the skipped execution returns, one for each result of the
            program; None if programs are executed.
    """

    results: list[Any] | None = None


compilation = _Compilation()


class _PlainCall:
    """The compiled programs of one ``jax.jit`` jaxpr, called through a C++ cache.

    It is made after the first execution of a program that `patch_plain_jit_calls` selects, and
    lives as long as the jaxpr.

    Args:
        run: JAX's ``_run_python_pjit``, which compiles and runs a ``jit``.
        params: parameters of the ``jit`` equation.

    Attributes:
        call: takes flat arguments; returns the results, or ``UnexecutedProgram`` on a cache miss.
    """

    def __init__(self, run: Callable[..., tuple[Any, ...]], params: dict[str, Any]) -> None:
        self._run = run
        # The jaxpr is the key of the dictionary of calls, which must not keep it alive.
        self._select = operator.itemgetter(*(name for name in params if name != "jaxpr"))
        self._params = self._select(params)
        self._arguments: threading.local = threading.local()
        # An entry of the cache keeps only XLA's executable alive, and not the callbacks.
        self._executables: list[Any] = []
        self.call = make_fast_call(_never_called, self._compile, lambda: True)

    def accepts(self, params: dict[str, Any]) -> bool:
        """Return whether the parameters of a ``jit`` equal the parameters of this object.

        The jaxpr is not compared.
        """
        return self._select(params) == self._params

    def run(self, p: Any, args: list[Any], *rest: Any) -> Any:
        """Call the program through the C++ cache, and wait for its results.

        Args:
            p: JAX's description of the call, with the parameters and the structure of the results.
            args: flat arguments of the program.
            *rest: further arguments for ``_run_python_pjit``, which compiles on a cache
                miss.

        Returns:
            the tuple that JAX's ``_run_python_pjit`` returns; None on a cache miss, when the
            program has been compiled but not executed.

        Raises:
            JaxRuntimeError: if the execution fails.
        """
        self._arguments.rest = p, rest
        self._arguments.error = None
        try:
            results = self.call(*args)
        except ValueError as error:
            if error is self._arguments.error:
                raise
            message = str(error)
        else:
            if type(results) is UnexecutedProgram:
                return None
            # The caller may delete the function as soon as the call has returned.
            first = results if isinstance(results, jax.Array) else jax.tree.leaves(results)[0]
            first.block_until_ready()
            return results, (), p.out_tree, args, p.params["jaxpr"], None, None, ()
        finally:
            self._arguments.rest = self._arguments.error = None
        # Raised outside of the handler, so that XLA's error is not the context.
        raise jax.errors.JaxRuntimeError(message)

    def _compile(self, *args: Any) -> Any:
        """Compile the program for flat arguments without executing it, on a cache miss.

        `run` has stored JAX's description of the call in this thread before.
        """
        p, rest = self._arguments.rest
        compilation.results = [None] * len(p.params["jaxpr"].out_avals)
        try:
            *_, executable, _, constants = self._run(p, list(args), *rest)
        except ValueError as error:
            # Not the text of a failed execution: `run` must not convert this error.
            self._arguments.error = error
            raise
        finally:
            compilation.results = None
        self._executables.append(executable)
        return _JitProgram(executable, _CallParams(p.out_tree, constants))


class _CallParams:
    """Result structure and constants of a program, named as in ``jax.stages``.

    Args:
        out_tree: the ``PyTreeDef`` of the results.
        const_args: arrays that JAX passes to the program as its first arguments.
    """

    is_high = False

    def __init__(self, out_tree: Any, const_args: Any) -> None:
        self.out_tree = out_tree
        self.const_args = const_args


class _JitProgram:
    """A compiled program, passed to `make_fast_call` in place of a ``Compiled``.

    It has only the attributes of ``Compiled`` that are needed for a cache entry.

    Args:
        executable: JAX's executable of the program.
        params: result structure and constants of the program.
    """

    def __init__(self, executable: Any, params: _CallParams) -> None:
        self._executable = executable
        self._params = params


def _never_called(*_: Any) -> None:
    """Raise `NotImplementedError`: a placeholder for the Python function of a program.

    JAX's C++ dispatch requires such a function, and calls it under ``jax.disable_jit`` only.
    """
    raise NotImplementedError


@patch("the slow calls of jit", "programs with circuits in a plain jax.jit are called from C++")
def patch_plain_jit_calls(predicate: Callable[[Any], bool], before_run: Callable[[], None]) -> None:
    """Patch JAX to call selected plain ``jax.jit`` programs through a C++ cache.

    Such a call returns when its results are ready. A program stays on JAX's slow path if it has
    effects, no results, donated arguments or several devices, and while JAX checks results for NaN
    or profiles programs.

    Args:
        predicate: takes JAX's executable of a program; returns whether the program is selected.
        before_run: called on the caller's thread before each execution through the cache.
    """
    jax_run = original(pjit, "_run_python_pjit")
    calls: weakref.WeakKeyDictionary[Any, _PlainCall] = weakref.WeakKeyDictionary()

    def is_selected(executable: Any, params: dict[str, Any]) -> bool:
        """Return whether later calls of a program may go through the C++ cache.

        Args:
            executable: JAX's executable of a program that has run once.
            params: parameters of the ``jit`` equation.
        """
        return (
            isinstance(executable, pxla.MeshExecutable)
            and predicate(executable)
            and bool(params["jaxpr"].out_avals)
            and not any(params["donated_invars"])
            and len(executable.xla_executable.local_devices()) == 1
            and not executable.unsafe_call.ordered_effects
            and not executable.unsafe_call.has_unordered_effects
            and not executable.unsafe_call.has_host_callbacks
        )

    def run(p: Any, args_flat: list[Any], *rest: Any) -> Any:
        """Run a ``jit``, through the C++ cache if `is_selected` accepted its executable.

        The first run takes JAX's path, and then calls `is_selected`. Later runs with equal
        parameters, outside of tracing, call `before_run` and use the cache, unless JAX checks NaNs,
        infinities or reused keys, or profiles programs. This function replaces JAX's
        ``_run_python_pjit``.
        """
        params = p.params
        call = calls.get(params["jaxpr"])
        if call is None:
            result = jax_run(p, args_flat, *rest)
            if is_selected(result[5], params):
                calls.setdefault(params["jaxpr"], _PlainCall(jax_run, params))
            return result
        if (
            call.accepts(params)
            and core.trace_state_clean()
            and not config.debug_key_reuse.value
            and not config.enable_pgle.value
            and not (config.debug_nans.value or config.debug_infs.value)
        ):
            before_run()
            result = call.run(p, args_flat, *rest)
            if result is not None:
                return result
        return jax_run(p, args_flat, *rest)

    replace(pjit, "_run_python_pjit", run)
