"""Fast calls of compiled programs, where JAX holds nothing while a program runs.

A ``jax.jit`` makes the first run of a signature a part of its entry in the cache of fast calls:
other threads that come to the entry wait in C++ until that run is over, and its own thread is
refused.  A callback that calls the function again, or waits for a thread that does, would hang.
Here an entry is made by compiling alone::

    fast = fast_calls(uncompiled, compile_)
    fast(x)         UnexecutedProgram: the program is compiled, and has its entry
    fast(x)         a fast call: it runs, and the entry is nobody's

Entries are told apart by more than a program is: where an array is, whether it is NumPy's.  So
``compile_`` is asked more than once for some programs.

These are private: ``_jax.pjit``, JAX's dispatch in C++, which the public ``jax.jit`` gives a
function of its own for what is not in the cache; what that function returns
(``MeshExecutableFastpathData``), and the attributes of an executable that are told by it;
``dispatch_registry``, the pytree nodes of fast calls, among which are keys; ``check_arg`` and
``check_eval_args``, which refuse what is no value; ``batched_device_put``; and ``ArrayImpl``, the
type of arrays that have values, which C++ compares by identity.  For jax 0.10 to 0.12.
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

# The type of arrays that have values.
ARRAY = array.ArrayImpl

# As many as all functions of a process have in JAX's own.
_ENTRIES = 8192


class UnexecutedProgram(NamedTuple):
    """What a fast call returns that has compiled a program, and not run it.

    Attributes:
        compiled: JAX's ``Compiled``.
    """

    compiled: Any


def make_fast_call(
    uncompiled: Callable[..., Any],
    compile_: Callable[..., jax.stages.Compiled],
    may_enter: Callable[[], bool],
) -> Any:
    """Return what calls programs, in C++, by the types of the arguments.

    It holds no lock while a program runs.  While one is compiled, threads that want it wait.

    Args:
        uncompiled: what ``jax.disable_jit`` and ``jax.debug_nans`` run, operation by operation.
        compile_: makes the program of the arguments that it is called with.
        may_enter: tells, when a program was compiled, whether later calls may be fast.
    """

    def enter(*args: Any, **kwargs: Any) -> tuple[UnexecutedProgram, Any, bool]:
        leaves = jax.tree.leaves((args, kwargs))
        for leaf in leaves:
            dispatch.check_arg(leaf)
        core.check_eval_args(leaves)
        compiled = compile_(*args, **kwargs)
        entry = _make_entry(compiled) if may_enter() else None
        return UnexecutedProgram(compiled), entry, False

    calls = _jax.pjit(
        getattr(uncompiled, "__name__", "program"),
        uncompiled,
        enter,
        (),
        (),
        pxla.JitGlobalCppCacheKeys(),
        tree_util.dispatch_registry,
        pxla.cc_shard_arg,
        _jax.PjitFunctionCache(capacity=_ENTRIES),
    )
    calls._fun = uncompiled
    return calls


def copy_to_device(values: np.ndarray, device: jax.Device) -> jax.Array:
    """Return values on a device, committed to none, maybe on their way there.

    ``jax.device_put``, which is for more than this, takes several times as long for 240 KB.
    """
    aval = _make_aval(values.shape, values.dtype, jax.config.jax_enable_x64)
    # Without 64-bit types, a NumPy array may be of another type than JAX's of it.
    values = values.astype(aval.dtype, copy=False)
    sharding = jax.sharding.SingleDeviceSharding(device)
    return xla_client.batched_device_put(aval, sharding, [values], [device], False)


@functools.lru_cache(maxsize=1024)
def _make_aval(shape: tuple[int, ...], dtype: np.dtype, x64: bool) -> Any:
    # That of a value takes some microseconds.
    del x64
    return jax.typeof(np.broadcast_to(np.zeros((), dtype), shape))


def _make_entry(compiled: Any) -> Any:
    """Return what a fast call of a program needs; None for one that C++ cannot call."""
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
    const_args = params.const_args
    # jax 0.10.0 has them put on devices by the call.
    if hasattr(executable, "shard_const_args"):
        const_args = executable.shard_const_args(const_args)
    return pxla.MeshExecutableFastpathData(
        executable.xla_executable,
        out_tree,
        _physical_shardings(executable._in_shardings, executable.in_avals),
        _physical_shardings(executable._out_shardings, executable.out_avals),
        list(map(core.physical_aval, executable.out_avals)),
        [executable._unloaded_executable.committed] * len(executable.out_avals),
        [i in executable._kept_var_idx for i in range(len(executable._all_args_info.in_avals))],
        executable._dispatch_in_layouts,
        const_args,
    )


def _physical_shardings(shardings: Any, avals: Any) -> list[Any]:
    return [
        sharding_impls.physical_sharding(aval, sharding)
        if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended)
        else sharding
        for sharding, aval in zip(shardings, avals, strict=True)
    ]


def _expand_keys(tree: Any, avals: Iterator[Any]) -> Any:
    """Return a structure whose leaves that are keys are nodes of an array each.

    No object of it is made, since classes of users may take arrays alone.
    """
    if jax.tree_util.treedef_is_leaf(tree) and tree.num_leaves == 1:
        aval = next(avals)
        if not jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key):
            return tree
        key = prng.PRNGKeyArray(aval.dtype._impl, core.physical_aval(aval))
        return tree_util.dispatch_registry.flatten(key, None)[1]
    children = [_expand_keys(child, avals) for child in tree.children()]
    return tree.from_node_data_and_children(tree_util.dispatch_registry, tree.node_data(), children)
