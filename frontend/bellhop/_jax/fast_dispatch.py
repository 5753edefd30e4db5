"""Calls of compiled programs through JAX's C++ fast path, without holding a lock.

The first call of a ``jax.jit`` signature executes while its entry in the C++ cache is locked: other
threads that need the entry wait, and a recursive call raises.  A callback that calls the function
again, or waits for a thread that does, would deadlock.  Here an entry is made by compilation only::

    fast = fast_calls(uncompiled, compile_)
    fast(x)         UnexecutedProgram: the program is compiled and has a cache entry
    fast(x)         a fast call, which executes the program without a lock

Cache keys have more details than signatures, such as the device of an array and whether it is a
NumPy array.  So ``compile_`` is called several times for some programs.

Private names, for jax 0.10 to 0.12: ``_jax.pjit``, JAX's C++ dispatch, to which ``jax.jit`` passes
a function that handles cache misses; ``MeshExecutableFastpathData``, the result of that function,
and the attributes of an executable that it needs; ``dispatch_registry``, the pytree registry of
fast calls, which has random keys as nodes; ``check_arg`` and ``check_eval_args``, which reject
values that are not arrays; ``batched_device_put``; and ``ArrayImpl``, the type of concrete arrays,
which C++ compares by identity.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jax._src import array, core, dispatch, sharding_impls, tree_util  # noqa: TID251
from jax._src.interpreters import pxla  # noqa: TID251
from jax._src.lib import _jax, xla_client  # noqa: TID251
from jax._src.random import prng  # noqa: TID251

# The type of concrete arrays.
ARRAY = array.ArrayImpl

# Capacity of the cache; JAX's own cache has the same capacity.
_ENTRIES = 8192


class UnexecutedProgram(NamedTuple):
    """Result of a fast call on a cache miss: a program, compiled but not executed.

    The caller then executes the program by other means, or repeats the call.

    Attributes:
        compiled: the program, JAX's ``Compiled``.
    """

    compiled: Any


def make_fast_call(
    uncompiled: Callable[..., Any],
    compile_: Callable[..., jax.stages.Compiled],
    should_cache: Callable[[], bool],
    *,
    has_static: bool = False,
    has_handle: bool = True,
) -> Any:
    """Make a C++ function that finds compiled programs by argument types, and runs them.

    The C++ function holds no lock while a program runs. If several threads need the same new
    program, one thread compiles it, and all other threads wait.

    Args:
        uncompiled: the Python function; under ``jax.disable_jit`` and ``jax.debug_nans`` it is
            evaluated eagerly.
        compile_: takes the call's arguments; compiles the program for them without executing it.
        should_cache: called after each compilation; returns whether to keep the program in the
            cache.
        has_static: whether the first argument is static: a hashable object, part of the cache key.
        has_handle: whether calls pass the program's first input: in programs of `qjit` the handle,
            an array with the address of a table of callbacks. If False, `compile_` adds this input,
            and `should_cache` must return False for a program that uses it.

    Returns:
        a function that executes a cached program and returns its results. On a cache miss it
        compiles the program and returns an `UnexecutedProgram`.
    """

    def compile_on_miss(*args: Any, **kwargs: Any) -> tuple[UnexecutedProgram, Any, bool]:
        """Compile the program for a call that missed the C++ cache, and make its cache entry.

        JAX's C++ dispatch calls this function with the arguments of the call.

        Returns:
            the value that the call returns; the cache entry, or None to cache nothing; and False,
            a flag that JAX's dispatch expects.

        Raises:
            TypeError: if a leaf is not an array or a number.
        """
        leaves = jax.tree.leaves((args[1:] if has_static else args, kwargs))
        for leaf in leaves:
            dispatch.check_arg(leaf)
        core.check_eval_args(leaves)
        compiled = compile_(*args, **kwargs)
        entry = _make_entry(compiled, has_handle=has_handle) if should_cache() else None
        return UnexecutedProgram(compiled), entry, False

    calls = _jax.pjit(
        getattr(uncompiled, "__name__", "program"),
        uncompiled,
        compile_on_miss,
        (0,) if has_static else (),
        (),
        pxla.JitGlobalCppCacheKeys(),
        tree_util.dispatch_registry,
        pxla.cc_shard_arg,
        _jax.PjitFunctionCache(capacity=_ENTRIES),
    )
    calls._fun = uncompiled
    return calls


def copy_to_device(values: np.ndarray, device: jax.Device) -> jax.Array:
    """Copy a NumPy array to a device asynchronously, uncommitted.

    ``jax.device_put`` is more general and takes several times as long for 240 KB.

    Args:
        values: the array. Without 64-bit types, it is converted to JAX's 32-bit dtype.
    """
    aval = _make_aval(values.shape, values.dtype, jax.config.jax_enable_x64)
    # Without 64-bit types, JAX's dtype differs from NumPy's.
    values = values.astype(aval.dtype, copy=False)
    sharding = jax.sharding.SingleDeviceSharding(device)
    return xla_client.batched_device_put(aval, sharding, [values], [device], False)


@functools.lru_cache(maxsize=1024)
def _make_aval(shape: tuple[int, ...], dtype: np.dtype, x64: bool) -> Any:
    """Return the abstract value of an array, from a cache.

    Args:
        shape: shape of the array.
        dtype: NumPy dtype of the array.
        x64: whether JAX's 64-bit types are on; only a part of the cache key.
    """
    # Cached, since `jax.typeof` takes some microseconds.
    del x64
    return jax.typeof(np.broadcast_to(np.zeros((), dtype), shape))


def uses_handle(compiled: Any) -> bool:
    """Return whether a compiled program uses its first argument, the handle.

    The handle is an array with the address of the table of callbacks. JAX drops unused arguments
    when it lowers a program.
    """
    return 0 in compiled._executable._kept_var_idx


def _make_entry(compiled: Any, *, has_handle: bool) -> Any:
    """Make the C++ cache entry of a compiled program.

    Args:
        compiled: the program, JAX's ``Compiled``.
        has_handle: whether calls pass the program's first input, the handle; if not, the program
            must not use it.

    Returns:
        JAX's ``MeshExecutableFastpathData``. None if C++ cannot call the program: it has effects,
        JAX host callbacks, references, or results of extended dtypes other than random keys.
    """
    executable, params = compiled._executable, compiled._params
    unsafe_call = executable.unsafe_call
    extended = [
        aval
        for aval in executable.out_avals
        if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended)
    ]
    if (
        params.is_high
        or not isinstance(unsafe_call, pxla.ExecuteReplicated)
        or unsafe_call.ordered_effects
        or unsafe_call.has_unordered_effects
        or unsafe_call.has_host_callbacks
        or executable._mut
        or not all(jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key) for aval in extended)
    ):
        return None
    out_tree = params.out_tree
    if extended:
        out_tree = _expand_keys(out_tree, iter(executable.out_avals))
    # Arrays of a call that are operands of the program.
    indices = range(0 if has_handle else 1, len(executable._all_args_info.in_avals))
    const_args = params.const_args
    # In jax 0.10.0 the call copies constants to devices.
    if hasattr(executable, "shard_const_args"):
        const_args = executable.shard_const_args(const_args)
    return pxla.MeshExecutableFastpathData(
        executable.xla_executable,
        out_tree,
        _physical_shardings(executable._in_shardings, executable.in_avals),
        _physical_shardings(executable._out_shardings, executable.out_avals),
        list(map(core.physical_aval, executable.out_avals)),
        [executable._unloaded_executable.committed] * len(executable.out_avals),
        [i in executable._kept_var_idx for i in indices],
        executable._dispatch_in_layouts,
        const_args,
    )


def _physical_shardings(shardings: Any, avals: Any) -> list[Any]:
    """Replace the shardings of random keys by the shardings of the keys' data.

    Args:
        shardings: the sharding of each value.
        avals: the abstract value of each value.

    Returns:
        a list; the shardings of other arrays are unchanged.
    """
    return [
        sharding_impls.physical_sharding(aval, sharding)
        if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended)
        else sharding
        for sharding, aval in zip(shardings, avals, strict=True)
    ]


def _expand_keys(tree: Any, avals: Iterator[Any]) -> Any:
    """Replace each random key in a tree structure by a node with one leaf.

    The program returns a key's data, from which the node makes the key. This works on `PyTreeDef`
    objects, since constructors of user classes may accept arrays only.

    Args:
        tree: the ``PyTreeDef`` of a program's results.
        avals: iterator over the abstract values of the leaves, which is advanced.

    Returns:
        the changed ``PyTreeDef``, with the same number of leaves.
    """
    if jax.tree_util.treedef_is_leaf(tree) and tree.num_leaves == 1:
        aval = next(avals)
        if not jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key):
            return tree
        key = prng.PRNGKeyArray(aval.dtype._impl, core.physical_aval(aval))
        return tree_util.dispatch_registry.flatten(key, None)[1]
    children = [_expand_keys(child, avals) for child in tree.children()]
    return tree.from_node_data_and_children(tree_util.dispatch_registry, tree.node_data(), children)
