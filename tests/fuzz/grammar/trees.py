"""Pytrees, with and without leaves."""

from dataclasses import dataclass
from typing import Any

from .expressions import expression
from .scope import Kind, Scope

# A pytree whose constructor computes with its leaves, which are two numbers.
OBSERVABLE = "qml.Hamiltonian"


@dataclass(frozen=True)
class Tree:
    """The structure of a value: a kind, None, or a tuple, list or dict of structures."""

    node: Any

    def text(self, scope: Scope, depth: int = 1) -> str:
        """Draw a value of this structure."""
        node = self.node
        if isinstance(node, Kind):
            return expression(scope, node, depth)
        if isinstance(node, tuple):
            parts = [Tree(part).text(scope, depth) for part in node]
            return f"({', '.join(parts)}{',' * (len(parts) == 1)})"
        if isinstance(node, list):
            return f"[{', '.join(Tree(part).text(scope, depth) for part in node)}]"
        if isinstance(node, dict):
            pairs = (f"{key!r}: {Tree(part).text(scope, depth)}" for key, part in node.items())
            return f"{{{', '.join(pairs)}}}"
        if node == OBSERVABLE:
            numbers = (expression(scope, Kind.FLOAT, depth) for _ in range(2))
            return f"{OBSERVABLE}([{', '.join(numbers)}], [qml.Z(0), qml.X(0)])"
        return "None"

    def bind(self, scope: Scope, name: str) -> None:
        """Make the leaves of a value that has a name known to a block."""
        node = self.node
        if isinstance(node, Kind):
            scope.variables[node].append(name)
        elif isinstance(node, (tuple, list)):
            for place, part in enumerate(node):
                Tree(part).bind(scope, f"{name}[{place}]")
        elif isinstance(node, dict):
            for key, part in node.items():
                Tree(part).bind(scope, f"{name}[{key!r}]")
        elif node == OBSERVABLE:
            scope.variables[Kind.FLOAT] += [f"{name}.data[0]", f"{name}.data[1]"]

    @property
    def leaves(self) -> int:
        node = self.node
        if isinstance(node, (tuple, list, dict)):
            parts = node.values() if isinstance(node, dict) else node
            return sum(Tree(part).leaves for part in parts)
        return 2 if node == OBSERVABLE else node is not None


def tree(scope: Scope, depth: int = 2, *, computes: bool = True) -> Tree:
    """Draw a structure, of which some may compute with their leaves when they are made, or none."""
    # One that is made in a circuit would be a gate of it.
    has_observables = computes and not (scope.traits.jit or scope.in_circuit)
    return Tree(_node(scope, depth, [OBSERVABLE] * has_observables))


def _node(scope: Scope, depth: int, observables: list[str]) -> Any:
    if not depth or not scope.chance(3):
        return scope.one_of(*scope.kinds)
    make = scope.one_of("none", "tuple", "dict", "list", *observables)
    if make in ("none", OBSERVABLE):
        return None if make == "none" else OBSERVABLE
    parts = [_node(scope, depth - 1, observables) for _ in range(scope.one_of(1, 0, 2))]
    if make == "dict":
        return dict(zip("ab", parts, strict=False))
    return tuple(parts) if make == "tuple" else parts
