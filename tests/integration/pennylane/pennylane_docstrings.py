"""The examples in PennyLane's docstrings, run as they are and with their QNodes compiled.

``python tests/integration/pennylane/pennylane_docstrings.py [PATTERN]`` runs all whose name has the
pattern and prints what became of each.
"""

import ast
import contextlib
import doctest
import importlib
import inspect
import io
import linecache
import re
import signal
import sys
import tempfile
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

import bellhop
from bellhop.circuits.front.interception import intercept_qnodes
from bellhop.tracing.state import is_tracing

_MODULES = ("fourier", "gradients", "kernels", "noise", "ops", "pauli", "qaoa", "qchem")
_MODULES += ("resource", "shadows", "templates", "transforms")
_BLOCK = re.compile(r"^(?P<indent> *)\.\. code-block::.*$|^(?P<literal> *)\S.*::$")
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+\.?\d*(?:e[-+]?\d+)?(?![\w])", re.IGNORECASE)
# For one statement of an example, on a slow machine.
_SECONDS = 120
_COMPILED = ("default.qubit", "lightning.qubit", "null.qubit")


@dataclass(frozen=True)
class Step:
    """A piece of an example.

    Attributes:
        source: statements, or one expression.
        printed: what the docstring says that it prints.
    """

    source: str
    printed: str = ""


def docstrings() -> dict[str, str]:
    """Return the docstrings of PennyLane's public functions whose examples have circuits."""
    found = {}
    for module in (qml, *(importlib.import_module(f"pennylane.{name}") for name in _MODULES)):
        for name in sorted(vars(module)):
            value = getattr(module, name)
            where = getattr(value, "__module__", None)
            if name.startswith("_") or not callable(value) or not isinstance(where, str):
                continue
            text = inspect.getdoc(value) or ""
            if where.startswith("pennylane") and re.search("qnode|QNode|qjit", text):
                found[f"{where}.{getattr(value, '__qualname__', name)}"] = text
    return {name: text for name, text in sorted(found.items()) if steps_of(text)}


def steps_of(text: str) -> list[Step]:
    """Return the examples of a docstring, in order."""
    try:
        prompts = doctest.DocTestParser().get_examples(text)
    except ValueError:
        return []
    steps = [(example.lineno, Step(example.source, example.want)) for example in prompts]
    steps += [(line, Step(source)) for line, source in _blocks(text)]
    return [step for _, step in sorted(steps, key=lambda pair: pair[0])]


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    lines = text.splitlines()
    for number, line in enumerate(lines):
        head = _BLOCK.match(line)
        if head is None:
            continue
        indent = len(head["indent"] if head["indent"] is not None else head["literal"])
        body = []
        for following in lines[number + 1 :]:
            if following.strip() and len(following) - len(following.lstrip()) <= indent:
                break
            body.append(following)
        source = textwrap.dedent("\n".join(body)).strip("\n")
        source = re.sub(r"\A(:[\w-]+:.*\n)+", "", source)
        with contextlib.suppress(SyntaxError):
            if ">>>" not in source and ast.parse(source).body:
                yield number, source


@dataclass
class Run:
    """What came of the steps of an example.

    Attributes:
        values: of each step that is an expression.
        printed: by each step.
        errors: that steps raised.
        n_compiled: how many calls of QNodes were compiled, or functions by qjit.
        has_shots: whether results are random.
    """

    values: dict[int, Any] = field(default_factory=dict)
    printed: dict[int, str] = field(default_factory=dict)
    errors: dict[int, BaseException] = field(default_factory=dict)
    n_compiled: int = 0
    has_shots: bool = False


class _Timeout(BaseException):
    pass


@contextlib.contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise _Timeout(f"took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run(steps: list[Step], *, compiled: bool) -> Run:
    """Run an example."""
    outcome = Run()
    namespace = {"qml": qml, "qp": qml, "np": qml.numpy, "pnp": qml.numpy, "jax": jax, "jnp": jnp}
    with (
        _replaced(_compiling(outcome) if compiled else _as_is()),
        warnings.catch_warnings(),
        tempfile.TemporaryDirectory() as directory,
        contextlib.chdir(directory),
    ):
        warnings.simplefilter("ignore")
        np.random.seed(42)
        for number, step in enumerate(steps):
            output = io.StringIO()
            try:
                with _limited(_SECONDS), contextlib.redirect_stdout(output):
                    value = _evaluate(step.source, namespace)
            except (Exception, SystemExit, _Timeout) as error:
                outcome.errors[number] = error
            else:
                outcome.printed[number] = output.getvalue()
                if value is not None:
                    outcome.values[number] = value
    return outcome


def _evaluate(source: str, namespace: dict[str, Any]) -> Any:
    source = textwrap.dedent(source)
    # Where autograph finds it.
    file = f"<docstring {len(linecache.cache)}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    tree = ast.parse(source)
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        *before, last = tree.body
        exec(compile(ast.Module(before, []), file, "exec"), namespace)
        return eval(compile(ast.Expression(last.value), file, "eval"), namespace)
    exec(compile(tree, file, "exec"), namespace)
    return None


Replacements = list[tuple[Any, str, Any]]


@contextlib.contextmanager
def _replaced(replacements: Replacements) -> Iterator[None]:
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in replacements]
    for owner, name, value in replacements:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def _decorator(change: Callable[..., Any]) -> Callable[..., Any]:
    def qjit(function: Any = None, **options: Any) -> Any:
        options.pop("compiler", None)
        if function is None:
            return lambda function: change(function, **options)
        return change(function, **options)

    return qjit


def _as_is() -> Replacements:
    return [(qml, "qjit", _decorator(lambda function, **options: function))]


def _compiling(outcome: Run) -> Replacements:
    original = qml.QNode.__call__

    def call(self: qml.QNode, *args: Any, **kwargs: Any) -> Any:
        leaves, tree = jax.tree.flatten((args, kwargs))
        if is_tracing() or not _is_compiled(self) or any(map(_is_foreign, leaves)):
            return original(self, *args, **kwargs)
        outcome.n_compiled += 1
        dynamic = [index for index, leaf in enumerate(leaves) if _is_dynamic(leaf)]

        def function(*values: Any) -> Any:
            full = list(leaves)
            for index, value in zip(dynamic, values, strict=True):
                full[index] = value
            args, kwargs = jax.tree.unflatten(tree, full)
            return self(*args, **kwargs)

        program = bellhop.qjit(function, seed=42)
        outcome.has_shots |= bool(self.shots)
        return program(*(jnp.asarray(np.asarray(leaves[index])) for index in dynamic))

    def qjit(function: Any, **options: Any) -> Any:
        outcome.n_compiled += 1
        return bellhop.qjit(function, **options)

    return [(qml.QNode, "__call__", call), (qml, "qjit", _decorator(qjit))]


def _is_compiled(qnode: qml.QNode) -> bool:
    """Tell whether a call of a QNode can be compiled: not where it asks about the circuit."""
    asks = any(
        transform.is_informative or transform.classical_cotransform is not None
        for transform in qnode.compile_pipeline
    )
    return qnode.device.name in _COMPILED and not asks


def _is_dynamic(leaf: Any) -> bool:
    return isinstance(leaf, float | complex | np.ndarray | jax.Array)


def _is_foreign(leaf: Any) -> bool:
    """Tell whether a value belongs to another framework's derivative, or to an outer trace."""
    return isinstance(leaf, jax.core.Tracer) or type(leaf).__module__.startswith(
        ("autograd", "torch", "tensorflow")
    )


def differences(steps: list[Step]) -> tuple[list[str], Run]:
    """Run an example in both ways; return what differs, and the run with compiled circuits.

    What PennyLane itself does not run here is held to what the docstring prints.
    """
    plain, compiled = run(steps, compiled=False), run(steps, compiled=True)
    found = []
    for number, step in enumerate(steps):
        head = step.source.strip().splitlines()[0]
        if number in compiled.errors:
            error = compiled.errors[number]
            if type(plain.errors.get(number)) is not type(error) or "bellhop" in str(error):
                found.append(f"{head}: {type(error).__name__}: {_first_line(error)}")
                # What follows needs what is missing.
                break
        elif number in plain.values and number in compiled.values:
            is_random = compiled.has_shots
            values = plain.values[number], compiled.values[number]
            difference = _difference(*values, is_random=is_random)
            if difference:
                found.append(f"{head}: {difference}")
        elif number in plain.errors and step.printed:
            shown = compiled.printed[number] + repr(compiled.values.get(number, ""))
            if not _numbers_agree(shown, step.printed):
                found.append(f"{head}: {shown!r}, and the docstring has {step.printed!r}")
    return found, compiled


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), "")


def _difference(expected: Any, actual: Any, *, is_random: bool) -> str:
    if is_random and _has_counts(expected):
        return ""
    expected, actual = map(_plain, (expected, actual))
    one, other = jax.tree.leaves(expected), jax.tree.leaves(actual)
    if len(one) != len(other):
        return f"{actual!r} instead of {expected!r}"
    for left, right in zip(one, other, strict=True):
        try:
            left, right = np.asarray(left), np.asarray(right)
            if left.dtype.kind not in "biufc":
                continue
        except Exception:
            continue
        if left.shape != right.shape:
            return f"shape {right.shape} instead of {left.shape}"
        if not is_random and not np.allclose(left, right, atol=1e-6, equal_nan=True):
            return f"{right} instead of {left}"
    return ""


def _has_counts(value: Any) -> bool:
    """Tell whether PennyLane returned counts, which compiled programs do in another form."""
    if isinstance(value, tuple | list):
        return any(map(_has_counts, value))
    return isinstance(value, dict)


def _plain(value: Any) -> Any:
    """Return a value with lists for tuples, and nothing for objects that are compared by name."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _numbers_agree(shown: str, printed: str) -> bool:
    one, other = ([float(word) for word in _NUMBER.findall(text)] for text in (shown, printed))
    return len(one) == len(other) and np.allclose(one, other, atol=2e-3)


def main(pattern: str = "") -> None:
    """Run all examples whose name has a pattern, and print what became of each."""
    prepare()
    for name, text in docstrings().items():
        if pattern in name:
            start = time.perf_counter()
            found, compiled = differences(steps_of(text))
            state = "DIFFERS" if found else "same" if compiled.n_compiled else "nothing compiled"
            seconds = time.perf_counter() - start
            print(f"{state:17}{seconds:6.1f} s  {name}", *found, sep="\n    ", flush=True)


def prepare() -> None:
    """Tell PennyLane of bellhop, where only its source is on the path."""
    import tomllib
    from collections import defaultdict
    from importlib.metadata import EntryPoint

    from pennylane.compiler.compiler import AvailableCompilers

    group = "pennylane.compilers"
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    found: Any = defaultdict(dict)
    for name, value in project["entry-points"][group].items():
        compiler, _, role = name.partition(".")
        found[compiler][role] = EntryPoint(name, value, group)
    AvailableCompilers.names_entrypoints = found
    # Now, since it replaces a method that is put back after each example.
    intercept_qnodes()


if __name__ == "__main__":
    main(*sys.argv[1:])
