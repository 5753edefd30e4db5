"""The steps of the report, the most important first, and how their time is shared.

A step may take its limit, but leaves the steps behind it what is reserved for them.  On a machine
where nothing hangs most steps need a fraction of their limits.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gpu_report.gpu_tests import make_test_command
from benchmarks.gpu_report.report_file import Report, StepResult
from benchmarks.gpu_report.runner import Child, ChildResult, run_children

CPUS = len(os.sched_getaffinity(0))
_NO_GPU = "JAX sees no GPU here"
# The first is JAX's default device.
_GPU_FIRST = {"JAX_PLATFORMS": "cuda,cpu"}
_CPU_FIRST = {"JAX_PLATFORMS": "cpu,cuda"}
_CPU_ONLY = {"JAX_PLATFORMS": "cpu"}
#: What all processes have.  Preallocation would give the first of several processes three quarters
#: of the GPU's memory, and would hide what each needs.
ENVIRONMENT = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "PYTHONUNBUFFERED": "1",
    "PYTHONFAULTHANDLER": "1",
    "COLUMNS": "160",
    # Two CPU devices: the second one is the region's device where there is no GPU.
    "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
}
#: The cases of `first_calls.py`, which this process does not import: it needs JAX.
FIRST_CALLS = (
    "region",
    "region on the default device",
    "gradient",
    "gradient in the program",
    "jit",
    "gradient of jit",
    "vmap",
    "vmap of gradient",
    "region in a scan",
    "regions in a conditional",
    "prints",
    "jax prints",
    "pure callback",
    "ordered io callback",
    "jax callbacks",
    "exception",
    "circuit beside a region",
    "circuit in a region",
    "gradient of a circuit in a region",
    "circuit in jax.jit",
    "results on the device",
    "qml.qjit",
)
#: The arguments of the processes of `linear_algebra.py`.
LIBRARIES = (
    ("eigh", "svd"),
    ("qr", "solve"),
    ("cholesky", "inv", "slogdet"),
    ("random",),
    ("others",),
)
SIZES = (16, 20, 24, 28)
#: Precisions, ways and sizes: what matters most comes first, since 120 s may not do for all.
CIRCUITS = (
    ("f32", "region", SIZES),
    ("f32", "engine", SIZES),
    ("f32", "jit", SIZES[:1]),
    ("f64", "region", SIZES),
    ("f64", "engine", SIZES),
    ("f32", "jit", SIZES[1:]),
    ("f64", "jit", SIZES),
)
#: Without a GPU's speed and memory, larger circuits are skipped.
LARGEST_WITHOUT_GPU = 20


@dataclass(frozen=True)
class Machine:
    """The machine, as the step ``machine`` found it.

    Attributes:
        gpu: "real", "stand-in", "none", or "unknown" where the step did not find out.
        memory: bytes of the GPU, or 0 where it does not say.
    """

    gpu: str = "unknown"
    memory: int = 0

    @classmethod
    def from_records(cls, records: Sequence[dict[str, Any]]) -> Machine:
        """Read what the step recorded; it may have been stopped before."""
        for record in records:
            if record["name"] == "devices" and "gpu" in record:
                return cls(record["gpu"], int(record.get("memory_bytes") or 0))
        return cls()


@dataclass(frozen=True)
class Step:
    """A step of the report.

    Attributes:
        name: a short name.
        title: what it answers.
        limit: the seconds that it takes at most.
        reserved: the seconds that earlier steps leave to it.
        list_children: returns the processes for a machine.
        at_once: how many processes run at the same time.
    """

    name: str
    title: str
    limit: float
    reserved: float
    list_children: Callable[[Machine], list[Child]]
    at_once: int = 1


def list_steps(root: Path, site: Path) -> list[Step]:
    """Return all steps, in their order.

    Args:
        root: the folder of the bundle.
        site: where packages are installed, beside the machine's.
    """
    # First calls have processes of their own.  Each of these has a few threads.
    half = max(1, CPUS // 2)
    return [
        Step("installation", "Installation", 60, 20, lambda _: [_installation(root, site)]),
        Step("machine", "(a) Versions, driver, doctor", 40, 20, _machine, 2),
        Step("first calls", "(b) First calls", 75, 30, _first_calls, min(half, 10)),
        Step(
            "tests",
            "(c) Tests marked gpu, the GPU is the default",
            180,
            110,
            lambda m: _tests(root, m, _GPU_FIRST),
        ),
        Step("costs", "(d) What regions cost", 50, 30, _costs),
        Step("circuits", "(e) Circuits in regions", 120, 80, _circuits, 2 if CPUS >= 8 else 1),
        Step("precision", "(f) Precision", 30, 15, _precision),
        Step("libraries", "(g) Linear algebra, FFT, random", 40, 20, _libraries, min(half, 5)),
        Step(
            "tests on the CPU",
            "Tests marked gpu, the CPU is the default",
            180,
            0,
            lambda m: _tests(root, m, _CPU_FIRST),
        ),
    ]


def run_steps(report: Report, steps: Sequence[Step], seconds: float, folder: Path) -> None:
    """Run steps one after the other; the report is written at each change.

    Args:
        report: gets a result for each step.
        steps: in their order.
        seconds: for all of them, after which what is left is skipped.
        folder: for the files of the processes; it exists.
    """
    begin = time.monotonic()
    os.environ.update({**ENVIRONMENT, "XLA_FLAGS": _add_flags(ENVIRONMENT["XLA_FLAGS"])})
    report.steps = [StepResult(step.name, step.title) for step in steps]

    def write() -> None:
        report.seconds = round(time.monotonic() - begin, 1)
        report.write()

    try:
        for number, (step, result) in enumerate(zip(steps, report.steps, strict=True)):
            reserved = report.slowness * sum(later.reserved for later in steps[number + 1 :])
            left = begin + seconds - time.monotonic()
            limit = min(report.slowness * step.limit, max(left - reserved, left / 2))
            room = folder / str(number)
            room.mkdir()
            _run_step(report, step, result, time.monotonic() + limit, room, write)
        report.state = "complete"
    except BaseException:
        report.state = "cut off"
        raise
    finally:
        write()


def _run_step(
    report: Report,
    step: Step,
    result: StepResult,
    deadline: float,
    folder: Path,
    write: Callable[[], None],
) -> None:
    """Run a step; an error of the report's own is that step's failure, and no other's."""
    begin = time.monotonic()
    result.state = "running"
    write()

    def on_change() -> None:
        result.seconds = round(time.monotonic() - begin, 1)
        write()

    try:
        machine = Machine.from_records(report.find_records("machine"))
        children = [
            dataclasses.replace(child, seconds=report.slowness * child.seconds)
            for child in step.list_children(machine)
        ]
        result.children = [ChildResult(child.label) for child in children]
        run_children(
            children,
            result.children,
            at_once=step.at_once,
            deadline=deadline,
            folder=folder,
            on_change=on_change,
        )
        for number in range(len(children)):
            report.append_output(step.name, number, folder / f"{number}.output")
        result.state, result.detail = _judge(result.children)
    except Exception:
        result.state, result.detail = "failed", traceback.format_exc()
    except BaseException:
        result.state = "cut off"
        raise
    finally:
        on_change()


def _judge(children: Sequence[ChildResult]) -> tuple[str, str]:
    """Return the state of a step whose processes have ended, and a reason if it was skipped."""
    states = {child.state for child in children}
    if states == {"skipped"}:
        return "skipped", children[0].detail
    right = all(record["ok"] for child in children for record in child.records)
    return ("done" if right and states <= {"finished", "skipped"} else "failed"), ""


def _add_flags(flags: str) -> str:
    return " ".join(filter(None, [os.environ.get("XLA_FLAGS"), flags]))


def _python(module: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", f"benchmarks.gpu_report.{module}", *arguments)


def _installation(root: Path, site: Path) -> Child:
    """Install the bundle's wheels beside the machine's packages."""
    wheels = sorted(map(str, (root / "wheels").glob("*.whl")))
    pip = (sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--no-compile")
    command = (*pip, "--disable-pip-version-check", "--quiet", "--target", str(site), *wheels)
    skipped = "" if wheels else "there are no wheels here: packages are as they are installed"
    return Child("pip install", command, 60, skipped=skipped)


def _machine(machine: Machine) -> list[Child]:
    doctor = (sys.executable, "-m", "bellhop", "doctor")
    return [
        Child("versions", _python("machine"), 30, keeps_output=True),
        Child("python -m bellhop doctor", doctor, 40, keeps_output=True),
    ]


def _first_calls(machine: Machine) -> list[Child]:
    gpu = _NO_GPU if machine.gpu == "none" else ""
    defaults = {"the GPU is the default": (_GPU_FIRST, gpu)}
    defaults["the CPU is the default"] = (_CPU_ONLY if gpu else _CPU_FIRST, "")
    # What waits for so many seconds prints its region and its callback.
    watchdog = {"BELLHOP_WATCHDOG": "20"}
    return [
        Child(
            f"{name}, {default}",
            _python("first_calls", name),
            40,
            {**environment, **watchdog},
            skipped=skipped,
        )
        for default, (environment, skipped) in defaults.items()
        for name in FIRST_CALLS
    ]


def _tests(root: Path, machine: Machine, first: Mapping[str, str]) -> list[Child]:
    command = make_test_command(root, workers=max(2, min(12, 3 * CPUS // 4)))
    environment = {**first, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    skipped = f"{_NO_GPU}, which these tests need" if machine.gpu == "none" else ""
    return [Child("pytest -m gpu", command, 180, environment, keeps_output=True, skipped=skipped)]


def _on_the_gpu(machine: Machine) -> dict[str, str]:
    return _CPU_ONLY if machine.gpu == "none" else _GPU_FIRST


def _costs(machine: Machine) -> list[Child]:
    subjects = ("crossing", "transfers", "callbacks", "overlap")
    environment = _on_the_gpu(machine)
    return [Child(name, _python("region_costs", name), 25, environment) for name in subjects]


def _circuits(machine: Machine) -> list[Child]:
    """List a process for each way, precision and size, in the order of `CIRCUITS`."""
    return [
        Child(
            f"{way}, {qubits} qubits, {precision}",
            _python("circuits", way, str(qubits), precision),
            # PennyLane's own path takes most of its time to compile.
            40 if way == "jit" else 25,
            _circuit_environment(way, precision, machine),
            skipped=_skip_circuit(qubits, precision, machine),
        )
        for precision, way, sizes in CIRCUITS
        for qubits in sizes
    ]


def _circuit_environment(way: str, precision: str, machine: Machine) -> dict[str, str]:
    if way == "engine":
        return _CPU_ONLY
    # PennyLane's own path is in single precision where JAX's 64-bit types are off.
    single = {"BELLHOP_X64": "0"} if (way, precision) == ("jit", "f32") else {}
    return {**_on_the_gpu(machine), **single}


def _skip_circuit(qubits: int, precision: str, machine: Machine) -> str:
    """Return why a circuit is not run, or an empty string."""
    if machine.gpu in ("none", "stand-in") and qubits > LARGEST_WITHOUT_GPU:
        return f"no real GPU is here; more than {LARGEST_WITHOUT_GPU} qubits are for one"
    # A gradient needs about three states.
    needed = 3 * (8 if precision == "f32" else 16) << qubits
    if machine.memory and needed > machine.memory:
        return f"three states are {needed >> 20} MiB, and the GPU has {machine.memory >> 20}"
    return ""


def _precision(machine: Machine) -> list[Child]:
    return [Child("against the CPU in f64", _python("precision"), 30, _on_the_gpu(machine))]


def _libraries(machine: Machine) -> list[Child]:
    """List processes that run at the same time: each program takes seconds to compile."""
    return [
        Child(" ".join(names), _python("linear_algebra", *names), 40, _on_the_gpu(machine))
        for names in LIBRARIES
    ]
