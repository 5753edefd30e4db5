"""Options of public functions: a value of another type is an error that names the option."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import bellhop

FLOAT = jax.ShapeDtypeStruct((), float)
CBRT = {"library": "libm.so.6", "symbol": "cbrt", "result_type": float}


def _identity(x: Any) -> Any:
    return x


def _native(**options: Any) -> Any:
    return bellhop.native_callback(**{**CBRT, **options})


def _log_when(when: Any) -> Any:
    return bellhop.qjit(lambda x: bellhop.debug.log("INFO", "{}", x, when=when))(1.0)


CALLS: dict[str, tuple[Callable[[Any], Any], tuple[Any, ...], str]] = {
    "accelerate": (
        lambda value: bellhop.accelerate(_identity, static_argnums=value),
        (len, "x"),
        "accelerate: static_argnums takes positions of arguments",
    ),
    "accelerate by name": (
        lambda value: bellhop.accelerate(_identity, donate_argnames=value),
        (len, 3),
        "accelerate: donate_argnames takes names of arguments",
    ),
    "apply_pass": (bellhop.passes.apply_pass, (3, [3]), "apply_pass: name is"),
    "aliases": (
        lambda value: bellhop.buffer_callback(_identity, FLOAT, input_output_aliases=value),
        ([0], "a", 3),
        "input_output_aliases is .*, expected a dictionary, such as {0: 0}",
    ),
    "cond": (
        lambda value: bellhop.cond(False, lambda: 1, elifs=value),
        (3, len),
        "cond: elifs is .*, expected pairs",
    ),
    "enable_cache": (bellhop.enable_cache, (3, [3]), "enable_cache: path is"),
    "extrapolate_kwargs": (
        lambda value: bellhop.mitigate_with_zne(
            _identity, scale_factors=[1, 3], extrapolate_kwargs=value
        ),
        (3, [3]),
        "extrapolate_kwargs is .*, expected a dictionary",
    ),
    "grad": (
        lambda value: bellhop.grad(_identity, argnums=value)(1.0),
        ("x", len),
        "grad: argnums takes positions of arguments",
    ),
    "keep_intermediate": (
        lambda value: bellhop.qjit(_identity, keep_intermediate=value),
        ([3], len),
        "keep_intermediate must be a bool, an integer",
    ),
    "library": (lambda value: _native(library=value), (3, len), r"\(called from .*\): library is"),
    "symbol": (lambda value: _native(symbol=value), (3, len), r"\(called from .*\): symbol is"),
    "argument_types": (
        lambda value: _native(argument_types=value),
        (3, float, "d", ["text"]),
        r"\(called from .*\): argument_types is .*, expected a sequence",
    ),
    "log": (_log_when, ("yes", len), "log: when is .*, expected a bool"),
    "profile": (lambda value: bellhop.profile(limit=value), ("x", [3]), "profile: limit is"),
    "tap_queue_limit": (bellhop.tap_queue_limit, ("x", [3]), "tap_queue_limit: bytes is"),
    "watchdog": (bellhop.debug.watchdog, ("x", [3], np.complex64(1)), "debug.watchdog: seconds is"),
}


@pytest.mark.parametrize("option", CALLS)
def test_error_names_function_and_option(option: str) -> None:
    call, values, message = CALLS[option]
    for value in values:
        with pytest.raises((TypeError, ValueError), match=message):
            call(value)


@pytest.mark.parametrize("functions", [[math.cos], math.cos, "cos"])
def test_functions_for_load_are_a_dictionary(tmp_path: Path, functions: Any) -> None:
    program = bellhop.qjit(lambda x: bellhop.pure_callback(math.cos, float)(x))
    program(1.0)
    path = tmp_path / "program.bellhop"
    program.save(path)
    with pytest.raises(TypeError, match="load: functions is .*, expected a dictionary, such as"):
        bellhop.load(path, functions=functions)
