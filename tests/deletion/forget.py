"""Remove the entries of a registry that mention a word.

An entry is an element of a list or tuple, a pair of a dictionary, a name in an import, an operand
of ``|``, or else the statement around the word, such as an ``if`` whose condition has the word::

    from measure import Shadow, mean     ->    from measure import mean
    CLASSES = {"shadow": Shadow,         ->    CLASSES = {
               "mean": mean}                              "mean": mean}
"""

import ast
import re


def forget(source: str, word: str) -> str:
    """Remove all entries that mention a word.

    Args:
        source: the text of a Python file.
        word: a name, an attribute, or the whole of a string.

    Raises:
        LookupError: if nothing mentions the word.
    """
    if not _find_mentions(ast.parse(source), word):
        raise LookupError(f"no entry mentions {word!r}")
    while mentions := _find_mentions(ast.parse(source), word):
        source = _cut(source, mentions[0])
    return source


def _find_mentions(tree: ast.AST, word: str) -> list[list[ast.AST]]:
    """Return the nodes that mention a word, each as the path from the root to it."""
    found: list[list[ast.AST]] = []

    def walk(path: list[ast.AST]) -> None:
        node = path[-1]
        texts = (getattr(node, name, None) for name in ("id", "attr", "value", "name", "module"))
        if not isinstance(node, ast.stmt) and word in [t for t in texts if isinstance(t, str)]:
            found.append(path)
        for child in ast.iter_child_nodes(node):
            walk([*path, child])

    walk([tree])
    return found


def _cut(source: str, path: list[ast.AST]) -> str:
    """Remove the smallest entry around the last node of a path."""
    pairs = list(zip(path[-2::-1], path[:0:-1], strict=True))
    for index, (parent, node) in enumerate(pairs):
        if isinstance(parent, ast.Tuple) and isinstance(pairs[index + 1][0], ast.Dict):
            continue
        siblings = _list_entries(parent)
        if len(siblings) > 1:
            return _cut_entry(source, siblings, node)
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.BitOr):
            other = parent.right if node is parent.left else parent.left
            start, end = _find_span(source, parent)
            return source[:start] + str(ast.get_source_segment(source, other)) + source[end:]
        if isinstance(node, ast.stmt):
            start, end = _find_span(source, node)
            return source[: source.rfind("\n", 0, start) + 1] + source[source.find("\n", end) + 1 :]
    raise AssertionError


def _list_entries(parent: ast.AST) -> list[tuple[ast.AST, ast.AST]]:
    """Return the first and last nodes of a collection's entries; empty if it is none."""
    if isinstance(parent, ast.ImportFrom | ast.Import):
        return [(name, name) for name in parent.names]
    if isinstance(parent, ast.List | ast.Tuple | ast.Set):
        return [(element, element) for element in parent.elts]
    if isinstance(parent, ast.Dict):
        return [
            (key or value, value) for key, value in zip(parent.keys, parent.values, strict=True)
        ]
    return []


def _cut_entry(source: str, entries: list[tuple[ast.AST, ast.AST]], node: ast.AST) -> str:
    """Remove the entry with a node, and the comma after it."""
    first, last = next(entry for entry in entries if node in entry)
    start, end = _find_span(source, first)[0], _find_span(source, last)[1]
    after = re.match(r"\s*,[ ]*(#[^\n]*)?\n?[ ]*", source[end:])
    if after is not None:
        return source[:start] + source[end + after.end() :]
    # The last entry of one line: the comma is before it.
    return source[:start].rstrip().rstrip(",") + source[end:]


def _find_span(source: str, node: ast.AST) -> tuple[int, int]:
    """Return the offsets at which a node begins and ends."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    at = lambda line, column: starts[line - 1] + len(lines[line - 1].encode()[:column].decode())
    return (
        at(node.lineno, node.col_offset),  # type: ignore[attr-defined]
        at(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
    )
