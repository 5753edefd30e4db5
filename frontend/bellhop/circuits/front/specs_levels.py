"""Levels (numbers of applied transforms) of ``qml.specs`` and drawings."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pennylane as qml

# PennyLane's names of the levels without and with all tape transforms.
_FIRST_STAGE, _LOWERED_STAGE = "Before Tape Transforms", "Before MLIR Passes"
_ALL_LEVELS = ("all", "all-mlir")


def has_several_levels(level: Any) -> bool:
    """Return whether a ``level`` argument of ``qml.specs`` selects several levels.

    True for ``"all"``, ``"all-mlir"`` and sequences; False for another name, a number, a slice and
    None.
    """
    is_one = level is None or isinstance(level, str | int | slice)
    return level in _ALL_LEVELS if isinstance(level, str) else not is_one


def count_resources_at_levels(
    specs: Callable[..., Any], qnode: qml.QNode, level: Any
) -> Callable[..., Any]:
    """Make a function that counts the resources of a QNode at several levels.

    A level is the circuit after some of the QNode's transforms.  The returned function replaces
    the result of ``qml.specs(qnode, level=...)`` for a compiled function.

    Args:
        specs: ``qml.specs``, which is called once for each level.
        qnode: the QNode.
        level: ``"all"``, ``"all-mlir"``, or a sequence of level numbers and names.

    Returns:
        a function of the QNode's arguments, which returns PennyLane's ``CircuitSpecs``.

    Raises:
        ValueError: if the QNode has no such level, or if ``level`` is empty.
    """
    stages = list(_iterate_stages(qnode))
    if level == "all-mlir":
        start = next(number for number, (name, _) in enumerate(stages) if name == _LOWERED_STAGE)
        numbers: Iterable[int] = range(start, len(stages))
    elif level == "all":
        numbers = range(len(stages))
    else:
        numbers = [_find_stage("qml.specs", each, stages) for each in level]
        if not numbers:
            raise ValueError(
                f"qml.specs: level={level!r} contains no level, expected at least one of "
                f"{_list_levels(stages)}. Use level='all' for all levels."
            )

    def count(*args: Any, **kwargs: Any) -> Any:
        """Count the resources of the QNode for given arguments, at each selected level.

        Args:
            args: positional arguments of the QNode.
            kwargs: keyword arguments of the QNode.

        Returns:
            ``CircuitSpecs`` whose ``level`` is a dictionary from level numbers to names, and whose
            ``resources`` is a dictionary from names to resources. The circuit's depth is not
            computed.
        """
        names: dict[int, str] = {}
        resources: dict[Any, Any] = {}
        for number in numbers:
            name, applied = stages[number]
            level_specs = specs(qnode, level=applied, compute_depth=False)(*args, **kwargs)
            names[number] = name
            resources[name] = level_specs.resources
        return qml.resource.CircuitSpecs(
            device_name=level_specs.device_name,
            num_device_wires=level_specs.num_device_wires,
            shots=level_specs.shots,
            level=names,
            resources=resources,
        )

    return count


def _iterate_stages(qnode: qml.QNode) -> Iterator[tuple[str, int]]:
    """Yield each level of a QNode: its name and its number of applied transforms.

    A level is the circuit after the first transforms of the QNode. Its name is, as in PennyLane,
    the user's marker or the name of the transform that was applied last; a repeated name ends in
    ``-2``, ``-3``, ... ``"Before Tape Transforms"`` is the level without transforms, if the QNode
    has a tape transform. ``"Before MLIR Passes"`` follows the level of the last tape transform,
    with the same number of applied transforms. This function applies no transform.
    """
    pipeline = list(qnode.compile_pipeline)
    n_tape = max((n for n, t in enumerate(pipeline, 1) if t.pass_name is None), default=0)
    markers = {place: name for name, place in qnode.compile_pipeline._markers.items()}
    seen: dict[str, int] = {}
    for applied in range(len(pipeline) + 1):
        if applied == 0 and n_tape:
            yield _FIRST_STAGE, 0
        elif applied:
            transform = pipeline[applied - 1]
            name = transform.pass_name or transform.tape_transform.__name__
            name = markers.get(applied, name)
            seen[name] = seen.get(name, 0) + 1
            yield name if seen[name] == 1 else f"{name}-{seen[name]}", applied
        if applied == n_tape:
            yield _LOWERED_STAGE, applied


def draw_at_level(function: Callable[..., Any], level: Any) -> Callable[..., Any]:
    """Make a function that draws a QNode with ``qml.draw_mpl`` at one level.

    Args:
        function: a QNode.
        level: the name of the level, or its position among all levels. A level is the circuit after
            some of the QNode's transforms.

    Returns:
        a function of the QNode's arguments, which returns Matplotlib's figure and axes.

    Raises:
        ValueError: if ``function`` is not a QNode, or has no such level.
    """
    if not isinstance(function, qml.QNode):
        raise ValueError(
            f"draw_graph: level={level!r} needs a QNode, got {function!r}. Leave level out, or "
            "draw the QNode that the function calls."
        )
    stages = list(_iterate_stages(function))
    _, applied = stages[_find_stage("draw_graph", level, stages)]
    draw: Callable[..., Any] = qml.draw_mpl(function, level=applied)
    return draw


def _find_stage(tool_name: str, level: Any, stages: list[tuple[str, int]]) -> int:
    """Return the position of a level among the levels of a QNode, by number or name.

    Args:
        tool_name: the function that the user called, for errors.
        level: the position in ``stages``, or the name of the level.
        stages: name and number of applied transforms of each level, from ``_iterate_stages``.

    Raises:
        ValueError: if the level does not exist.
    """
    names = [name for name, _ in stages]
    if level in names:
        return names.index(level)
    if isinstance(level, int) and 0 <= level < len(stages):
        return level
    raise ValueError(
        f"{tool_name}: {level!r} is not a level of this circuit, expected one of "
        f"{_list_levels(stages)}."
    )


def _list_levels(stages: list[tuple[str, int]]) -> str:
    """List the numbers and names of a QNode's levels as a string, for error messages."""
    return ", ".join([*map(str, range(len(stages))), *(repr(name) for name, _ in stages)])
