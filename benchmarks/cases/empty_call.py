"""The cost of entering and leaving a compiled program: x + 1, and other forms of arguments.

Limit: `jax.jit`, whose C++ dispatch every program on XLA passes through.
"""

from collections.abc import Callable
from typing import Any

from benchmarks.case import LIMIT, Case, Program, Target, qjit_builders


# Each is wrapped in a new function for each program: JAX keeps what it compiled by function object.
def _increment(x: Any) -> Any:
    return x + 1


def _total(**tree: Any) -> Any:
    return sum(tree.values())


def _array() -> tuple[tuple[Any, ...], dict[str, Any]]:
    import jax.numpy as jnp

    return (jnp.asarray(0.5),), {}


def _pytree() -> tuple[tuple[Any, ...], dict[str, Any]]:
    import jax.numpy as jnp

    return ({f"x{i}": jnp.asarray(0.5 * i) for i in range(20)},), {}


def _case(
    name: str,
    form: str,
    function: Callable[..., Any],
    arguments: Callable[[], tuple[tuple[Any, ...], dict[str, Any]]],
    expected: float,
) -> Case:
    def program(compile_: Callable[..., Any]) -> Program:
        args, kwargs = arguments()
        compiled = compile_(lambda *args, **kwargs: function(*args, **kwargs))
        return Program(lambda: compiled(*args, **kwargs).block_until_ready())

    def jax() -> Program:
        import jax

        return program(jax.jit)

    return Case(
        name=name,
        title=f"empty call ({form})",
        limit="jax.jit of the same function",
        builders={"jax": jax, **qjit_builders(lambda api: program(api.qjit)), LIMIT: jax},
        expected=lambda: expected,
        targets=(Target(LIMIT, 1 / 1.2),),
    )


CASES = [
    _case("empty-call", "x + 1", _increment, _array, 1.5),
    _case("empty-call-float", "x + 1 of a float", _increment, lambda: ((0.5,), {}), 1.5),
    _case("empty-call-keyword", "x=0.5, y=1.0", _total, lambda: ((), {"x": 0.5, "y": 1.0}), 1.5),
    _case("empty-call-pytree", "20 arrays", lambda tree: _total(**tree), _pytree, 95.0),
]
