"""Which tests a tier leaves out: cells of matrices, tests that start a process, and slow tests.

A test with several parametrized arguments is a matrix.  In some of its cells every value of each
argument stands at least once; the others are marked ``matrix``.  Every two values of different
arguments stand together in some of those, and what is then left is marked ``long`` too.  An
argument that is a cell of several axes itself says so::

    @pytest.mark.axes(cell=lambda cell: (cell.flavour, cell.program))
    @pytest.mark.parametrize("cell", CELLS)
"""

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Sequence

import pytest
from tests.durations import read_slow_tests

# Cells that run only on some machines or in some tiers must not stand for those that run in all.
_CONDITIONAL = {"gpu", "needs", "skipif", "subprocess", "memory", "hessian", "large"}
# Fixtures that start an interpreter.
_STARTS_A_PROCESS = {"run_script"}


def mark_tiers(items: Iterable[pytest.Item]) -> None:
    """Mark what follows from how tests are written."""
    matrices = defaultdict(list)
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        if _STARTS_A_PROCESS & set(item.fixturenames):
            item.add_marker(pytest.mark.subprocess)
        if item.nodeid in read_slow_tests():
            item.add_marker(pytest.mark.slow)
        marks = {mark.name for mark in item.iter_markers()}
        if hasattr(item, "callspec") and "long" not in marks:
            conditional = not marks.isdisjoint(_CONDITIONAL)
            matrices[item.parent, item.originalname, conditional].append(item)
    for cells in matrices.values():
        rows = [_values(cell) for cell in cells]
        quick = choose_covering(rows, 1)
        pairs = choose_covering(rows, 2, quick)
        for index, cell in enumerate(cells):
            if index not in quick:
                cell.add_marker(pytest.mark.matrix)
            if index not in pairs:
                cell.add_marker(pytest.mark.long)


def choose_covering(
    rows: Sequence[Sequence[Hashable]], strength: int, chosen: Collection[int] = ()
) -> set[int]:
    """Choose rows in which stands what stands in all: each combination of ``strength`` values.

    Args:
        rows: a value for each axis.
        strength: how many axes are combined.
        chosen: rows that are taken in any case.

    Returns:
        The indices of the rows: few, though not always the fewest.
    """
    combinations = [
        set(itertools.combinations(enumerate(row), min(strength, len(row)))) for row in rows
    ]
    taken = set(chosen)
    missing = set().union(*combinations).difference(*(combinations[index] for index in taken))
    uses = Counter(value for index in taken for value in enumerate(rows[index]))

    def merit(index: int) -> tuple[int, int, int]:
        """Rank a row, best first: by what it adds, and then by values that are used little."""
        added = len(combinations[index] & missing)
        return -added, sum(uses[value] for value in enumerate(rows[index])), index

    # A row's merit only becomes less: one that is still before all others is the best.
    queue = [merit(index) for index in range(len(rows))]
    heapq.heapify(queue)
    while missing:
        index = heapq.heappop(queue)[-1]
        if queue and merit(index) > queue[0]:
            heapq.heappush(queue, merit(index))
            continue
        taken.add(index)
        missing -= combinations[index]
        uses.update(enumerate(rows[index]))
    return taken


def _values(cell: pytest.Function) -> tuple[Hashable, ...]:
    """Return the value of each axis: one for each decorator, and for each fixture that has some."""
    params = cell.callspec.params
    axes = cell.get_closest_marker("axes")
    together = [_names(mark) for mark in cell.iter_markers("parametrize")]
    alone = params.keys() - {name for names in together for name in names}
    values: list[Hashable] = []
    for names in (*together, *((name,) for name in sorted(alone))):
        if axes and names[0] in axes.kwargs:
            values += axes.kwargs[names[0]](params[names[0]])
        else:
            # Values need not be hashable, and are the same objects in all cells.
            values.append(tuple(id(params[name]) for name in names))
    return tuple(values)


def _names(mark: pytest.Mark) -> tuple[str, ...]:
    names = mark.args[0] if mark.args else mark.kwargs["argnames"]
    return tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else names
