"""One of several branches, chosen while the program runs."""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from bellhop.control_flow.steps import classical_result, traced_branches
from bellhop.tracing.state import taker_of_gates


def run_branch(
    construct: str, index: Any, names: Sequence[str], branches: Sequence[Callable[[], Any]]
) -> Any:
    """Run the branch with a number, and only that one; return its result.

    Outside circuits, ``jax.vmap`` with an index for each element makes JAX run all branches and
    select; circuits run one by one, so theirs stay conditionals.
    """

    def result_of(name: str, branch: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: classical_result(construct, name, branch())

    checked = [result_of(name, branch) for name, branch in zip(names, branches, strict=True)]
    circuit = taker_of_gates()
    run = choose if circuit is None else circuit.branch
    return run(construct, index, names, checked)


def choose(
    construct: str, index: Any, names: Sequence[str], branches: Sequence[Callable[[], Any]]
) -> Any:
    """Run a branch that is not part of a circuit; the arguments are those of a circuit's."""

    def pair(branch: Callable[[], Any]) -> Callable[[], tuple[Any, Any]]:
        return lambda: (branch(), ())

    runners, _ = traced_branches(construct, names, [pair(branch) for branch in branches])
    return jax.lax.switch(index, runners)[0]
