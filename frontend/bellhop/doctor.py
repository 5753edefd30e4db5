"""Check of an installation: versions, devices, and a small program on each device."""

import importlib.metadata
import platform
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import jax
import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import bellhop
from bellhop._jax.private import cpu_dispatch_is_asynchronous
from bellhop._patching import installed_patches
from bellhop._versions import SUPPORTED, is_supported
from bellhop.arguments.accepted_arguments import format_count
from bellhop.devices.devices import all_devices, device_name, host_device
from bellhop.settings.config import read_environment_engine
from bellhop_runtime import engine_limits

_PACKAGES = ("pennylane-bellhop", "jax", "jaxlib", "numpy", "pennylane", "pennylane-lightning")
# Number of timed calls; the fastest is reported as the duration of a host call.
_CALLS = 20
_OPTIONAL = ("pennylane-lightning-kokkos", "torch", "optax")


@dataclass(frozen=True)
class Finding:
    """Result of one check of an installation, a row of the printed table.

    Attributes:
        topic: name of the part that was checked, such as ``"versions"``.
        works: whether it works; None if there is nothing to try.
        detail: observation, such as versions or durations.
        advice: remedy, or the text of the error; printed only if `works` is False.
    """

    topic: str
    works: bool | None
    detail: str
    advice: str = ""


def examine(console: Console | None = None, *, verbose: bool = False) -> int:
    """Check the installation with small programs, and print the findings as a table.

    ``python -m bellhop doctor`` calls it.

    Args:
        console: where to print; standard output if None.
        verbose: whether to print internals too: the limits of Bellhop's circuit simulator, and the
            patches of other libraries.

    Returns:
        the exit status for a process: 0 if everything works, otherwise 1.

    Example:
        >>> import io
        >>> from rich.console import Console
        >>> screen = io.StringIO()
        >>> examine(Console(file=screen))
        0
    """
    console = console or Console()
    findings = list(_collect_findings())
    if verbose:
        findings += _collect_internals()
    table = Table(title="Bellhop", title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    table.add_column("what", no_wrap=True)
    table.add_column("found", overflow="fold")
    for finding in findings:
        mark = {True: "[green]ok[/]", False: "[red]no[/]", None: ""}[finding.works]
        # Texts may contain brackets, which are markup.
        table.add_row(mark, escape(finding.topic), escape(finding.detail))
    console.print(table)
    failures = [finding for finding in findings if finding.works is False]
    for finding in failures:
        console.print(f"\n[bold]{escape(finding.topic)}[/]: {escape(finding.advice)}")
    if failures:
        console.print(f"\n{format_count(len(failures), 'check')} failed.")
        return 1
    console.print("\nAll checks passed.")
    return 0


def _collect_findings() -> Iterator[Finding]:
    """Check the parts of an installation; yield a finding for each.

    The parts are versions, JAX's settings, a callback, a region on each device, missing GPUs, a
    circuit on each plugin of PennyLane, and PennyLane's list of compilers. Failures are findings,
    not exceptions.
    """
    yield _check_versions()
    yield _check_jax_settings()
    yield _try("callback", "call a Python function", _run_callback)
    devices = all_devices()
    for device in devices:
        yield _try(
            f"region on {device_name(device)}",
            device.device_kind,
            lambda: _run_region(device),  # noqa: B023
        )
    if all(device.platform == "cpu" for device in devices):
        yield Finding(
            "GPUs and TPUs",
            None,
            'JAX found none; for NVIDIA GPUs: pip install "jax[cuda12]"',
        )
    yield from _check_circuits()
    yield _check_compiler()


def _collect_internals() -> list[Finding]:
    """Report Bellhop's circuit simulator (the engine) and the installed patches.

    Call it after all other checks: their programs install most of the patches that it lists.

    Returns:
        two findings that neither succeed nor fail.
    """
    return [_check_engine(), _check_patches()]


def _check_versions() -> Finding:
    """Check that required packages are installed, in supported versions.

    Optional packages are checked and listed only if they are installed.
    """
    installed = {}
    for package in (*_PACKAGES, *_OPTIONAL):
        try:
            installed[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            if package in _PACKAGES:
                installed[package] = "missing"
    wrong = [
        f'"{package}{SUPPORTED.get(package, "")}"'
        for package, version in installed.items()
        if version == "missing" or not is_supported(package, version)
    ]
    text = ", ".join(f"{package} {version}" for package, version in installed.items())
    return Finding(
        "versions",
        not wrong,
        f"Python {platform.python_version()} ({_describe_gil()}), {text}",
        f"Install versions that are supported: pip install {' '.join(wrong)}",
    )


def _describe_gil() -> str:
    """Describe whether Python has a global interpreter lock: ``"with the GIL"``.

    For a free-threaded Python ``"free-threaded, the GIL is off"``, or ``on`` if it was turned on.
    """
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "with the GIL"
    is_on = getattr(sys, "_is_gil_enabled", lambda: True)()
    return f"free-threaded, the GIL is {'on' if is_on else 'off'}"


def _check_jax_settings() -> Finding:
    """Report JAX's precision and backend; fail if CPU programs run asynchronously.

    Callbacks that use JAX may hang in asynchronous programs.
    """
    asynchronous = cpu_dispatch_is_asynchronous()
    bits = 64 if jax.config.read("jax_enable_x64") else 32
    return Finding(
        "settings of JAX",
        not asynchronous,
        f"{bits}-bit types, default backend {jax.default_backend()}",
        "The CPU dispatches asynchronously, so callbacks that use JAX may hang. Import bellhop "
        "before JAX is used, or set JAX_CPU_ENABLE_ASYNC_DISPATCH=0.",
    )


def _try(topic: str, detail: str, program: Callable[[], str | None]) -> Finding:
    """Run a small program; return a finding that it worked, or failed.

    The advice of a failure is the class of the exception and the first line of its message.

    Args:
        topic: name of the checked part, the first column of the printed table.
        detail: description of the part that was tried, such as a device's model.
        program: raises any exception if the part does not work; may return a text, such as a
            duration, to append to `detail`.
    """
    try:
        more = program()
    except Exception as error:
        return Finding(topic, False, detail, f"{type(error).__name__}: {_first_line(error)}")
    return Finding(topic, True, f"{detail}, {more}" if more else detail)


def _first_line(error: Exception) -> str:
    """Return the first line of an exception's message; empty for an empty message."""
    return next(iter(str(error).strip().splitlines()), "")


def _expect(observed: object, expected: float) -> None:
    """Raise `ArithmeticError` unless all elements of a result equal a number.

    Rounding errors are allowed, as in ``numpy.allclose``.
    """
    if not np.allclose(np.asarray(observed), expected):
        raise ArithmeticError(f"The result is {observed} and should be {expected}.")


def _run_callback() -> None:
    """Call a Python function from a compiled program; raise an error if that fails."""
    double = bellhop.pure_callback(lambda x: 2 * x, jax.ShapeDtypeStruct((), np.float32))
    _expect(bellhop.qjit(lambda x: double(x))(np.float32(1.5)), 3.0)


def _run_region(device: jax.Device) -> str | None:
    """Run a small ``accelerate`` function on a device and check its result.

    Returns:
        text with the shortest duration of a call to the device and back; None for the CPU device
        that runs programs, on which no separate call is made.

    Raises:
        ArithmeticError: if the result is wrong. Exceptions of the call are not caught.
    """
    double = bellhop.qjit(lambda x: bellhop.accelerate(lambda x: 2 * x, dev=device)(x))
    x = np.float32(1.5)
    _expect(double(x), 3.0)
    if device == host_device():
        return None
    took = []
    for _ in range(_CALLS):
        begin = time.perf_counter()
        double(x)
        took.append(time.perf_counter() - begin)
    return f"there and back in {1e6 * min(took):.0f} us"


def _check_circuits() -> Iterator[Finding]:
    """Run a circuit on every PennyLane device that compiled programs can use.

    Yields:
        one finding for each entry point in ``pennylane.plugins``; devices that compiled programs
        can only call through Python are left out. For a device that cannot be created, `works` is
        None and the detail is the error.
    """
    import pennylane as qml

    from bellhop.circuits.backends.choose.choose_executor import is_simulated_in_program

    for entry_point in importlib.metadata.entry_points(group="pennylane.plugins"):
        name = entry_point.name
        try:
            device = qml.device(name, wires=1)
        except Exception as error:
            # PennyLane itself lists devices whose packages are optional.
            yield Finding(f"circuit on {name}", None, f"not usable: {' '.join(str(error).split())}")
            continue
        if not (hasattr(device, "get_c_interface") or is_simulated_in_program(device)):
            continue

        @qml.qnode(device)
        def rotate(angle: float) -> object:
            """Return ``<Z>`` after ``RX(angle)``, which is ``cos(angle)``."""
            qml.RX(angle, wires=0)
            return qml.expval(qml.Z(0))

        yield _try(
            f"circuit on {name}",
            type(device).__module__.partition(".")[0],
            lambda: _expect(bellhop.qjit(rotate)(0.3), np.cos(0.3)),  # noqa: B023
        )


def _check_engine() -> Finding:
    """Report the limits of Bellhop's own circuit simulator, the engine.

    The engine simulates circuits for Lightning devices. Its limits are the numbers of qubits on
    CPUs and on GPUs, and the number of floating-point numbers that one instruction processes. With
    ``BELLHOP_ENGINE=plugin`` the finding says that the engine is not used. `works` is None.
    """
    on_cpu, on_gpus, lanes = engine_limits()
    detail = f"up to {on_cpu} qubits, on GPUs up to {on_gpus}; {lanes} numbers at a time"
    if read_environment_engine() == "plugin":
        detail = "not used: BELLHOP_ENGINE=plugin"
    return Finding("engine for circuits", None, detail)


def _check_patches() -> Finding:
    """Report the parts of JAX, PennyLane and malt that Bellhop has patched so far.

    `works` of the finding is None.
    """
    parts = "; ".join(f"{part}: {reason}" for part, reason in installed_patches().items())
    return Finding("replaced parts", None, parts or "nothing")


def _check_compiler() -> Finding:
    """Check that PennyLane finds the entry point of ``qjit(compiler="bellhop")``."""
    names = {entry.name for entry in importlib.metadata.entry_points(group="pennylane.compilers")}
    return Finding(
        'qml.qjit(compiler="bellhop")',
        "bellhop.qjit" in names,
        "found by PennyLane" if "bellhop.qjit" in names else "not found by PennyLane",
        "Install the package (pip install pennylane-bellhop): a package that is only on sys.path "
        "has no entry points.",
    )
