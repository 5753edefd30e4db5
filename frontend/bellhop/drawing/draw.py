"""`draw`: diagrams of hybrid programs."""

import functools
import inspect
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import jax

from bellhop.arguments.flat_tree import make_flat_jaxpr
from bellhop.arguments.static_arguments import Static
from bellhop.base.exception_attributes import reveal_exceptions
from bellhop.base.public_function import hide_internal_frames, public_function
from bellhop.base.source import function_name
from bellhop.base.types import Args, Kwargs
from bellhop.compiled.out_shardings import resolve_out_shardings
from bellhop.compiled.qjit import QJIT
from bellhop.devices.devices import Target, describe_target
from bellhop.drawing.build_graph import build_program_graph
from bellhop.drawing.dot import to_dot
from bellhop.drawing.figure import make_figure
from bellhop.drawing.graph import Graph
from bellhop.drawing.mermaid import to_mermaid
from bellhop.drawing.text import to_text
from bellhop.tracing.state import trace_with_options
from bellhop.transformations.inline_trace import trace_inline

_TEXTS = {".dot": "dot", ".gv": "dot", ".mmd": "mermaid"}


@dataclass(frozen=True)
class Drawing:
    """A diagram of a program, shown as image in notebooks and printed as text.

    Attributes:
        graph: boxes, frames around boxes, and edges of the diagram.

    Example:
        >>> import bellhop
        >>> drawing = bellhop.draw(lambda x: 2 * x)(1.0)
        >>> drawing.mermaid.splitlines()[0]
        'flowchart TD'
    """

    graph: Graph

    @property
    def mermaid(self) -> str:
        """The diagram as Mermaid text, which GitHub and many editors render."""
        return to_mermaid(self.graph)

    @property
    def dot(self) -> str:
        """The diagram in Graphviz's DOT language."""
        return to_dot(self.graph)

    @public_function
    def save(self, path: str | Path) -> None:
        """Write the diagram to a file, in the format of the file's ending.

        Args:
            path: path ending with ``.mmd`` for Mermaid, ``.dot`` for Graphviz's language, or
                ``.svg``, ``.png`` or ``.pdf``, which need Graphviz.

        Raises:
            ValueError: for another ending.
            RuntimeError: if Graphviz is needed and not installed.

        Example:
            >>> import bellhop, pathlib
            >>> bellhop.draw(lambda x: 2 * x)(1.0).save("program.mmd")
            >>> pathlib.Path("program.mmd").read_text().splitlines()[0]
            'flowchart TD'
        """
        path = Path(path)
        if path.suffix in _TEXTS:
            path.write_text(getattr(self, _TEXTS[path.suffix]))
        elif path.suffix in (".svg", ".png", ".pdf"):
            path.write_bytes(_render(self.dot, path.suffix[1:]))
        else:
            raise ValueError(
                f"A picture cannot be written to '{path.name}': give a name that ends with "
                ".mmd, .dot, .svg, .png or .pdf."
            )

    def __str__(self) -> str:
        return to_text(self.graph)

    def __repr__(self) -> str:
        return f"<drawing with {len(self.graph.edges)} edges: print it, or save it>"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """Return text, Mermaid and, with Graphviz, SVG by MIME type, for notebooks."""
        bundle = {"text/plain": str(self), "text/markdown": f"```mermaid\n{self.mermaid}```\n"}
        if _has_graphviz():
            bundle["image/svg+xml"] = _render(self.dot, "svg").decode()
        return bundle


class DrawingFunction:
    """Callable that ``draw`` and ``draw_graph`` return: it draws a program for arguments.

    Args:
        name: name of the public function, ``"draw"`` or ``"draw_graph"``.
        function: the drawn function.
        call: returns the drawing for the arguments of `function`.
    """

    def __init__(self, name: str, function: Callable[..., Any], call: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        named = f"'{function_name(function)}'"
        self._described = f"<{name} {named}: to draw, call it with the arguments of {named}>"
        self._call = call

    @hide_internal_frames
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Draw the program for these arguments or their types."""
        return self._call(*args, **kwargs)

    def __repr__(self) -> str:
        return self._described


@public_function(usage="Write draw(fn)(*args).")
def draw(fn: Callable[..., Any]) -> Callable[..., Drawing]:
    """Draw a hybrid program: host code, circuits, callbacks, regions and data flow.

    Host operations between callbacks, circuits and regions are merged into one box; loops and
    conditionals are boxes around their contents. The box of a circuit shows its derivatives and its
    plan: the executor (Bellhop's engine, the device's plugin, or the program itself with a reason),
    the treatment of random outcomes, the derivative method and the precision. The box of a region
    shows its device and the bytes that it receives and returns; edges between devices, and to
    results on a device, show the transfer. Nothing is compiled or run.

    ``print`` shows a drawing as text in program order, with the types of each box's inputs behind
    an arrow; a source is named unless it is the box in the line above. ``.mermaid`` and ``.save``
    give the drawing in other formats.

    Args:
        fn: a qjit function, or a function that qjit accepts.

    Returns:
        a function of the arguments of ``fn`` that returns a ``Drawing``.

    Raises:
        TypeError: if ``fn`` is not callable.

    Example:
        >>> import bellhop
        >>> @bellhop.qjit
        ... def f(x):
        ...     return bellhop.pure_callback(abs, float)(2 * x)
        >>> print(bellhop.draw(f)(1.0))
        argument  x
        host      mul                 ← f64[]
        callback  abs  pure_callback  ← f64[]
        result                        ← f64[]
    """
    if not callable(fn):
        raise TypeError(f"draw takes a function, got {fn!r} of type {type(fn).__name__}.")
    function = fn.user_function if isinstance(fn, QJIT) else fn

    @reveal_exceptions
    def draw_call(*args: Any, **kwargs: Any) -> Drawing:
        """Trace the drawn function for these arguments or types, and draw it."""
        traced, names = function, _argument_sizes(function, args, kwargs)
        if isinstance(fn, QJIT) and fn.static_arguments:
            static, args, kwargs = fn.static_arguments.split(args, kwargs)
            # Static arguments are part of the program, so they are not drawn.
            names = _dynamic_argument_sizes(fn.static_arguments.dynamic_names(), args, kwargs)
            traced = lambda *args, **kwargs: _call_bound(static, function, args, kwargs)
        options = trace_with_options(fn.compile_options) if isinstance(fn, QJIT) else nullcontext()
        out_shardings = fn.compile_options.out_shardings if isinstance(fn, QJIT) else None
        targets: tuple[Target | None, ...] = ()

        def resolve_and_trace(*args: Any, **kwargs: Any) -> Any:
            """Trace the function, and find the devices that ``out_shardings`` requests.

            The devices are assigned to `targets`, one for each leaf of the result.
            """
            nonlocal targets
            result = trace_inline(traced)(*args, **kwargs)
            targets = resolve_out_shardings(function, out_shardings, *jax.tree.flatten(result))
            return result

        with options:
            closed, types = make_flat_jaxpr(resolve_and_trace, *args, **kwargs)
        results = [
            ("result" + jax.tree_util.keystr(path[:1]), target and describe_target(target))
            for path, target in zip_longest(types.paths, targets)
        ]
        return Drawing(build_program_graph(closed, names, results))

    return DrawingFunction("draw", function, draw_call)


@public_function(usage="Write draw_graph(fn)(*args).")
def draw_graph(fn: Callable[..., Any], *, level: int | str | None = None) -> Callable[..., Any]:
    """Draw a program as a Matplotlib figure, with Catalyst's interface.

    Args:
        fn: a qjit function, or a function that qjit accepts.
        level: None draws the diagram of ``draw``. An index or name of a level of ``qml.specs``
            draws the gates of a QNode after that many of its transforms; ``bellhop.passes`` are
            applied later, see ``f.mlir``.

    Returns:
        a function of the arguments of ``fn`` that returns a figure and its axes.

    Raises:
        ImportError: at the call, without Matplotlib, which is in the extra ``plot``.
        ValueError: for an unknown level, or a level without a QNode.
        TypeError: if ``fn`` is not callable.

    Example:
        >>> import bellhop
        >>> figure, axes = bellhop.draw_graph(lambda x: 2 * x)(1.0)
        >>> [text.get_text() for text in axes.texts][-1]
        'result'
        >>> figure.clear()
    """
    function = fn.user_function if isinstance(fn, QJIT) else fn
    if level is not None:
        from bellhop.circuits.front.specs_levels import draw_at_level

        return draw_at_level(function, level)
    drawn = draw(fn)

    def draw_figure(*args: Any, **kwargs: Any) -> Any:
        """Trace and draw the program; return the Matplotlib figure and its axes."""
        return make_figure(drawn(*args, **kwargs).graph)

    return DrawingFunction("draw_graph", function, draw_figure)


def _argument_sizes(
    function: Callable[..., Any], args: Args, kwargs: Kwargs
) -> list[tuple[str, int]]:
    """List name and number of leaves of each argument: positional, then keywords.

    Positional arguments have the names of the function's parameters; if the function does not
    accept them, ``argument 0`` etc.
    """
    try:
        positional = inspect.signature(function).bind_partial(*args).arguments
    except (TypeError, ValueError):
        positional = {f"argument {i}": value for i, value in enumerate(args)}
    values = [*positional.items(), *sorted(kwargs.items())]
    return [(name, len(jax.tree.leaves(value))) for name, value in values]


def _dynamic_argument_sizes(names: list[str], args: Args, kwargs: Kwargs) -> list[tuple[str, int]]:
    """List name and number of leaves of each dynamic argument.

    Positional arguments come first, with ``names``, the names of the dynamic parameters; further
    positional arguments are ``argument 2`` etc. Keyword arguments follow, sorted by name.
    """
    surplus = [f"argument {i}" for i in range(len(names), len(args))]
    values = [*zip([*names, *surplus], args, strict=False), *sorted(kwargs.items())]
    return [(name, len(jax.tree.leaves(value))) for name, value in values]


def _call_bound(static: Static, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
    """Call `function` with its static arguments merged into the dynamic arguments."""
    args, kwargs = static.merge(args, kwargs)
    return function(*args, **kwargs)


def _has_graphviz() -> bool:
    """Return whether Graphviz's command ``dot`` and its Python package are installed."""
    return shutil.which("dot") is not None and _import_graphviz() is not None


def _import_graphviz() -> Any:
    """Return the Python package graphviz, or None if it is not installed."""
    try:
        import graphviz
    except ImportError:
        return None
    return graphviz


def _render(text: str, form: str) -> bytes:
    """Render text in the DOT language as the content of an image file, by Graphviz.

    ``form`` is ``"svg"``, ``"png"`` or ``"pdf"``.

    Raises:
        RuntimeError: if Graphviz is not installed.
    """
    if not _has_graphviz():
        raise RuntimeError(
            f"To draw as {form}, install Graphviz (its command `dot`) and the Python package "
            "graphviz (pip install graphviz); Mermaid text (.mmd) needs neither."
        )
    return _import_graphviz().Source(text).pipe(format=form)
