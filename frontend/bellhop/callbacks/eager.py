"""Direct calls of callbacks, when no program is being traced."""

import contextlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.compiler.batching import iterate_elements
from bellhop.compiler.callback_hints import add_argument_hint
from bellhop.compiler.callback_target import CallbackTarget
from bellhop.compiler.invalid_results import check_debug_flags
from bellhop.tracing.state import is_tracing, suspend_tracing
from bellhop_runtime import Callback


def call_with_arrays(target: CallbackTarget, leaves: Sequence[Any]) -> list[np.ndarray]:
    """Call a callback's function now, with concrete arrays, outside of a program.

    If ``vmap`` has batched the callback element by element, the function is called for each
    element. The call of an asynchronous callback is only queued: another thread makes it later.

    Args:
        target: the callback.
        leaves: leaves of the callback's arguments, concrete arrays or scalars.

    Returns:
        the result leaves, converted to the declared types; uninitialized arrays for an asynchronous
        callback.

    Raises:
        TypeError: for argument dtypes that callbacks do not support.
        FloatingPointError: for a NaN or infinity in a result that JAX's debug options forbid.
        Exception: of the function, as it raised it.
    """
    target.check_arguments([jax.typeof(leaf) for leaf in leaves])
    results = [np.empty(aval.shape, aval.dtype) for aval in target.result_avals]
    callback = target.bind()

    def call(arguments: list[np.ndarray], results: list[np.ndarray]) -> None:
        """Call the function for one batch element, and write its results into `results`.

        For an asynchronous callback the call is queued, and nothing is written.

        Args:
            arguments: leaves of the element's arguments. Mutated: an argument that shares memory
                with a result is replaced by the result's array.
            results: arrays that receive the element's result leaves.
        """
        if target.asynchronous:
            Callback.tap(callback, arguments)
            return
        for argument, result in target.aliases:
            results[result][...] = arguments[argument]
            arguments[argument] = results[result]
        try:
            callback(arguments, results)
        except (AttributeError, ValueError) as error:
            add_argument_hint(error)
            raise

    arguments = [_host_array(leaf) for leaf in leaves]
    if target.takes_device:
        arguments.append(np.array(_find_device_index(leaves), np.int32))
    # Under ``jax.disable_jit`` a program is run while it is traced.
    with suspend_tracing() if is_tracing() else contextlib.nullcontext():
        for of_element in iterate_elements(arguments, results, target.program_loops):
            call(*of_element)
    check_debug_flags(target.name_and_site, results)
    return results


def _find_device_index(leaves: Sequence[Any]) -> int:
    """Return the index of the CPU device of the first argument that is on a CPU.

    Args:
        leaves: leaves of the arguments.

    Returns:
        index among the local devices of the device's client; 0 if no argument is on a CPU device.
    """
    for leaf in leaves:
        if isinstance(leaf, jax.Array):
            for device in leaf.devices():
                if device.platform == "cpu":
                    # `client.devices()` may no longer list the device; `local_devices()` does.
                    return device.client.local_devices().index(device)
    return 0


def _host_array(leaf: object) -> np.ndarray:
    """Convert an argument leaf to a contiguous NumPy array, as the callback gets it.

    Args:
        leaf: array or number; of a random key the words of its key data are returned.
    """
    dtype = jax.typeof(leaf).dtype
    if jnp.issubdtype(dtype, jax.dtypes.extended):
        # A compiled program passes a random key as its words, too.
        return np.asarray(jax.random.key_data(leaf))
    return np.array(leaf, dtype, order="C", copy=None)
