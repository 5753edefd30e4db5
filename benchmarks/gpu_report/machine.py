"""Step (a): versions, the driver, devices and threads."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from typing import Any

from benchmarks.gpu_report.step_records import try_case

_PACKAGES = (
    "pennylane-bellhop",
    "pennylane",
    "pennylane-lightning",
    "jax",
    "jaxlib",
    "jax-cuda13-plugin",
    "numpy",
    "scipy",
    "optax",
    "equinox",
    "flax",
    "torch",
    "pytest",
)
_QUERY = "name,driver_version,memory.total,clocks.sm,clocks.mem,compute_cap"
_VARIABLES = ("JAX_", "XLA_", "BELLHOP_", "OMP_", "CUDA_", "NVIDIA_")


def _versions() -> dict[str, Any]:
    installed = {"python": platform.python_version(), "kernel": platform.release()}
    for package in _PACKAGES:
        try:
            installed[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            installed[package] = "missing"
    return installed


def _processors() -> dict[str, Any]:
    """Describe the cores; the engine and XLA have a thread for each usable one."""
    with open("/proc/cpuinfo") as file:
        names = {line.partition(":")[2].strip() for line in file if line.startswith("model name")}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "model": ", ".join(sorted(names)),
        "cores": os.cpu_count(),
        "usable cores": len(os.sched_getaffinity(0)),
        "memory GiB": round(memory / 2**30, 1),
    }


def _environment() -> dict[str, Any]:
    return {name: value for name, value in os.environ.items() if name.startswith(_VARIABLES)}


def _driver() -> dict[str, Any]:
    command = ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except FileNotFoundError:
        return {"nvidia-smi": "is not here"}
    return {"ok": done.returncode == 0, _QUERY: (done.stdout + done.stderr).strip()}


def _devices() -> dict[str, Any]:
    import jax

    try:
        device = jax.devices("gpu")[0]
    except RuntimeError:
        return {"gpu": "none", "devices": str(jax.devices())}
    statistics = device.memory_stats() or {}
    return {
        "gpu": "stand-in" if "STANDIN_CLIENT" in os.environ else "real",
        "default": jax.default_backend(),
        "devices": str(jax.devices()),
        "kind": device.device_kind,
        "compute capability": str(getattr(device, "compute_capability", "unknown")),
        "platform version": device.client.platform_version,
        "memory_bytes": statistics.get("bytes_limit", 0),
    }


def main() -> None:
    """Record all; what may hang comes last."""
    try_case("versions", _versions)
    try_case("processors", _processors)
    try_case("environment", _environment)
    try_case("nvidia-smi", _driver)
    try_case("devices", _devices)


if __name__ == "__main__":
    main()
