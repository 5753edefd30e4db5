"""One of several branches, chosen while the program runs."""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from bellhop.control_flow.steps import Branches, classical_result, traced_branches
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
    return run(Branches(construct, index, names, checked))


def choose(branches: Branches) -> Any:
    """Run one branch of a conditional that applies no gates; return its result."""
    runners, _ = traced_branches(branches.changed(lambda branch: lambda: (branch(), ())))
    return jax.lax.switch(branches.index, runners)[0]
