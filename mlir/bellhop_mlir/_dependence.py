"""Data dependence between the operations of a block: what each uses, and what uses it."""

from collections.abc import Iterable

from bellhop_mlir._bindings import ir
from bellhop_mlir._call_graph import find_reachable
from bellhop_mlir._walk import walk_operations


class DependenceGraph:
    """The operations of a block by place, and what each uses of the others.

    Args:
        block: the block; it must not change while this is used.
    """

    def __init__(self, block: ir.Block) -> None:
        self.operations = [op.operation for op in block.operations]
        made = {result: i for i, op in enumerate(self.operations) for result in op.results}
        self.uses: dict[int, set[int]] = {}
        self._users: dict[int, set[int]] = {i: set() for i in range(len(self.operations))}
        for i, op in enumerate(self.operations):
            # What stands in a loop or a conditional uses values of the block too.
            operands = [value for each in walk_operations(op) for value in each.operands]
            uses = {made[value] for value in operands if value in made}
            self.uses[i] = uses
            for j in uses:
                self._users[j].add(i)

    def find_dependencies(self, index: int) -> set[int]:
        """Return the places of what the operation at ``index`` depends on."""
        return _transitive_closure(self.uses, [index])

    def find_dependents(self, *places: int) -> set[int]:
        """Return the places of what depends on any of the operations at ``places``."""
        return _transitive_closure(self._users, places)


def _transitive_closure(edges: dict[int, set[int]], starts: Iterable[int]) -> set[int]:
    return find_reachable(edges, [j for i in starts for j in edges[i]])
