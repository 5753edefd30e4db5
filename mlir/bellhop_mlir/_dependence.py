"""Data dependences between the operations of a block."""

from collections.abc import Iterable

from bellhop_mlir._bindings import ir
from bellhop_mlir._call_graph import find_reachable
from bellhop_mlir._walk import walk_operations


class DependenceGraph:
    """Data dependences between the operations of a block, for passes that move them.

    An operation is represented by its index in the block; operations nested in it count as part of
    it. Effects are not considered: an operation depends only on operations whose results it uses.

    Args:
        block: the block, which must not change while the graph is used.

    Attributes:
        operations: the operations of the block, by index.
        uses: for each index, the indices of the operations whose results the operation uses.
    """

    def __init__(self, block: ir.Block) -> None:
        self.operations = [op.operation for op in block.operations]
        definitions = {result: i for i, op in enumerate(self.operations) for result in op.results}
        self.uses: dict[int, set[int]] = {}
        self._users: dict[int, set[int]] = {i: set() for i in range(len(self.operations))}
        for i, op in enumerate(self.operations):
            # Nested operations use values of the block too.
            operands = [value for each in walk_operations(op) for value in each.operands]
            uses = {definitions[value] for value in operands if value in definitions}
            self.uses[i] = uses
            for j in uses:
                self._users[j].add(i)

    def find_dependencies(self, index: int) -> set[int]:
        """Return the indices of all operations on which the operation ``index`` depends.

        Indirect dependences count; the operation itself is not included.
        """
        return _transitive_closure(self.uses, [index])

    def find_dependents(self, *indices: int) -> set[int]:
        """Return the indices of all operations that depend on any given operation.

        Args:
            *indices: indices of the given operations. Indirect dependences count.
        """
        return _transitive_closure(self._users, indices)


def _transitive_closure(edges: dict[int, set[int]], starts: Iterable[int]) -> set[int]:
    """Return the nodes that a path of at least one edge reaches from a node in ``starts``.

    ``edges`` has the successors of each node.
    """
    return find_reachable(edges, [j for i in starts for j in edges[i]])
