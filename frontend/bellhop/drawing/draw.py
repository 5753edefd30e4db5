"""draw: the picture of a hybrid program."""

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
from bellhop.base.types import Args, Kwargs
from bellhop.compiled.out_shardings import resolve_out_shardings
from bellhop.compiled.qjit import QJIT
from bellhop.devices.devices import Target, describe_target
from bellhop.drawing.build_graph import build_program_graph
from bellhop.drawing.dot import to_dot
from bellhop.drawing.figure import make_figure
from bellhop.drawing.graph import Graph
from bellhop.drawing.mermaid import to_mermaid
from bellhop.tracing.state import trace_with_options
from bellhop.transformations.inline_trace import trace_inline

_TEXTS = {".dot": "dot", ".gv": "dot", ".mmd": "mermaid"}


@dataclass(frozen=True)
class Drawing:
    """A picture of a program; shown as one in notebooks, as Mermaid text by ``print``.

    Attributes:
        graph: nodes, groups and edges.

    Example:
        >>> import bellhop
        >>> drawing = bellhop.draw(lambda x: 2 * x)(1.0)
        >>> drawing.mermaid.splitlines()[0]
        'flowchart TD'
    """

    graph: Graph

    @property
    def mermaid(self) -> str:
        """The picture as Mermaid text, which GitHub and many editors show."""
        return to_mermaid(self.graph)

    @property
    def dot(self) -> str:
        """The picture in Graphviz's language."""
        return to_dot(self.graph)

    def save(self, path: str | Path) -> None:
        """Write the picture to a file.

        Args:
            path: ends with ``.mmd`` for Mermaid, ``.dot`` for Graphviz's language, or with
                ``.svg``, ``.png`` or ``.pdf``, which need Graphviz.

        Raises:
            ValueError: for another ending.
            RuntimeError: if Graphviz is needed and not there.

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
        return self.mermaid

    def __repr__(self) -> str:
        return f"<drawing with {len(self.graph.edges)} edges: print it, or save it>"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        bundle = {"text/plain": self.mermaid, "text/markdown": f"```mermaid\n{self.mermaid}```\n"}
        if _has_graphviz():
            bundle["image/svg+xml"] = _render(self.dot, "svg").decode()
        return bundle


def draw(fn: Callable[..., Any]) -> Callable[..., Drawing]:
    """Draw a hybrid program: host, circuits, callbacks and regions, and what flows between.

    What the host computes between two of these is gathered into one box; loops and
    conditionals are boxes around what happens in them.  A circuit says what it computes besides
    values, and whether it is for Bellhop's engine, for its device's plugin or a part of the
    program, and then why.  A region says its device, and how many bytes it takes and gives, and
    what goes straight from one device to another says from where to where, as does a result that
    is asked for on a device.  Nothing is compiled or run.

    Args:
        fn: a qjit function, or a function that could be one.

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
        flowchart TD
          n0(["x"])
          n1["host<br>mul"]
          n2>"abs<br>pure_callback"]:::callback
          n3(["result"])
          n0 -->|"f64[]"| n1
          n1 -->|"f64[]"| n2
          n2 -->|"f64[]"| n3
          classDef callback fill:#fff3cd,stroke:#b58900,color:#000
        <BLANKLINE>
    """
    if not callable(fn):
        raise TypeError(f"draw takes a function, got {fn!r} of type {type(fn).__name__}.")
    function = fn.user_function if isinstance(fn, QJIT) else fn

    @functools.wraps(function)
    def draw_call(*args: Any, **kwargs: Any) -> Drawing:
        called, names = function, _argument_sizes(function, args, kwargs)
        if isinstance(fn, QJIT) and fn.static_arguments:
            static, args, kwargs = fn.static_arguments.split(args, kwargs)
            # As the program is, so is the drawing: static arguments are no arrows.
            names = _dynamic_argument_sizes(fn.static_arguments.dynamic_names(), args, kwargs)
            called = lambda *args, **kwargs: _call_bound(static, function, args, kwargs)
        options = trace_with_options(fn.compile_options) if isinstance(fn, QJIT) else nullcontext()
        asked = fn.compile_options.out_shardings if isinstance(fn, QJIT) else None
        targets: tuple[Target | None, ...] = ()

        def placed(*args: Any, **kwargs: Any) -> Any:
            nonlocal targets
            result = trace_inline(called)(*args, **kwargs)
            targets = resolve_out_shardings(function, asked, *jax.tree.flatten(result))
            return result

        with options:
            closed, types = make_flat_jaxpr(placed, *args, **kwargs)
        results = [
            ("result" + jax.tree_util.keystr(path[:1]), target and describe_target(target))
            for path, target in zip_longest(types.paths, targets)
        ]
        return Drawing(build_program_graph(closed, names, results))

    return draw_call


def draw_graph(fn: Callable[..., Any], *, level: int | str | None = None) -> Callable[..., Any]:
    """Draw a program as a figure of Matplotlib's, as Catalyst's ``draw_graph`` does.

    Args:
        fn: a qjit function, or a function that could be one.
        level: without, the picture is that of ``draw``.  With the number or the name of a level
            of ``qml.specs``, it is the gates of a QNode after so many of its transforms; what
            ``bellhop.passes`` do comes later, and ``f.mlir`` shows it.

    Returns:
        a function of the arguments of ``fn`` that returns a figure and its axes.

    Raises:
        ImportError: at the call, without Matplotlib, which is in the extra ``plot``.
        ValueError: for a level that there is not, or of what is no QNode.
        TypeError: if ``fn`` is not callable.

    Example:
        >>> import bellhop
        >>> figure, axes = bellhop.draw_graph(lambda x: 2 * x)(1.0)
        >>> [text.get_text() for text in axes.texts][-1]
        'result'
        >>> figure.clear()
    """
    if level is not None:
        from bellhop.circuits.front.specs_levels import draw_at_level

        return draw_at_level(fn.user_function if isinstance(fn, QJIT) else fn, level)
    drawn = draw(fn)

    @functools.wraps(drawn)
    def draw_figure(*args: Any, **kwargs: Any) -> Any:
        return make_figure(drawn(*args, **kwargs).graph)

    return draw_figure


def _argument_sizes(
    function: Callable[..., Any], args: Args, kwargs: Kwargs
) -> list[tuple[str, int]]:
    """Return the name of each argument and how many leaves it has, in JAX's order."""
    try:
        positional = inspect.signature(function).bind_partial(*args).arguments
    except (TypeError, ValueError):
        positional = {f"argument {i}": value for i, value in enumerate(args)}
    values = [*positional.items(), *sorted(kwargs.items())]
    return [(name, len(jax.tree.leaves(value))) for name, value in values]


def _dynamic_argument_sizes(names: list[str], args: Args, kwargs: Kwargs) -> list[tuple[str, int]]:
    values = [*zip(names, args, strict=False), *sorted(kwargs.items())]
    values += [(f"argument {i}", args[i]) for i in range(len(names), len(args))]
    return [(name, len(jax.tree.leaves(value))) for name, value in values]


def _call_bound(static: Static, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
    args, kwargs = static.merge(args, kwargs)
    return function(*args, **kwargs)


def _has_graphviz() -> bool:
    return shutil.which("dot") is not None and _import_graphviz() is not None


def _import_graphviz() -> Any:
    try:
        import graphviz
    except ImportError:
        return None
    return graphviz


def _render(text: str, form: str) -> bytes:
    if not _has_graphviz():
        raise RuntimeError(
            f"To draw as {form}, install Graphviz (its command `dot`) and the Python package "
            "graphviz (pip install pennylane-bellhop[draw]); Mermaid text (.mmd) needs neither."
        )
    return _import_graphviz().Source(text).pipe(format=form)
