"""What the whole suite needs before JAX starts."""

import os
from importlib.metadata import version

# A second CPU device stands in for the accelerator that a test machine may lack.
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
)
# Half of the quick tier's time would be XLA's: make test says this, and each program is then one
# module of LLVM, with eager operations and references made by the code generator that bellhop's
# own programs have (settings/code_generation.py).  All other tiers compile as users do.
if os.environ.get("JAX_DISABLE_MOST_OPTIMIZATIONS"):
    os.environ["XLA_FLAGS"] += " --xla_cpu_parallel_codegen_split_count=1"
    # The stand-in for a GPU has an XLA of its own, which refuses what it does not know.
    if version("jaxlib").startswith("0.10.") and "STANDIN_CLIENT" not in os.environ:
        os.environ["XLA_FLAGS"] += " --xla_cpu_use_fusion_emitters=false"

import gc  # noqa: E402
import signal  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import textwrap  # noqa: E402
from collections.abc import Callable  # noqa: E402

import hypothesis  # noqa: E402
import pytest  # noqa: E402
from tests import durations, needs, shares, tiers  # noqa: E402
from tests.patience import PATIENCE  # noqa: E402
from tests.standin.fixtures import busy, counts, delay, gpu  # noqa: E402, F401

# A shell has what it starts in the background ignore Ctrl-C, which tests send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A slow machine is no bug, and the examples are the same each time; others are tried with
# --hypothesis-profile=random.
for profile, derandomize in {"random": False, "same": True}.items():
    hypothesis.settings.register_profile(
        profile,
        deadline=None,
        derandomize=derandomize,
        suppress_health_check=[
            hypothesis.HealthCheck.too_slow,
            hypothesis.HealthCheck.function_scoped_fixture,
        ],
    )
hypothesis.settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    durations.add_options(parser)
    shares.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("record_durations"):
        config.pluginmanager.register(durations.DurationRecorder())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tiers.mark_tiers(items)
    # The tiers are the same in each share.
    shares.deselect_other_shares(config, items)
    needs.skip_missing_needs(items)
    _skip_where_there_is_no_gpu(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    # Half a million objects of libraries, that each garbage collection would walk through.
    gc.freeze()
    if session.config.getoption("check_durations"):
        durations.check_durations(session.items)


def _skip_where_there_is_no_gpu(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    import jax

    try:
        jax.devices("gpu")
    except RuntimeError:
        for item in marked:
            item.add_marker(needs.GPU.unless(False))


@pytest.fixture
def run_script() -> Callable[..., str]:
    """Run a script in a fresh interpreter and return what it printed.

    A script that hangs fails the test instead of the suite.
    """

    def run(script: str, *, timeout: float = PATIENCE, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)],
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, **environment},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def short_collections():
    """Let the test collect its own garbage, and not look through what the suite has made."""
    gc.freeze()


@pytest.fixture
def own_directory(tmp_path, monkeypatch):
    """Run the test in an empty directory, where programs may leave their stages."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
