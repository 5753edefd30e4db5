"""Which versions of other packages bellhop says that it supports, and how."""

import tomllib
import warnings
from pathlib import Path

import jax
import pytest

from bellhop import _versions

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("package", "version", "supported"),
    [
        ("jax", "0.9.9", False),
        ("jax", "0.10.0", True),
        ("jax", "0.12.0.1", True),
        ("jax", "0.12.5.dev20261101+abc", True),
        ("jax", "0.13.0.dev20261201", False),
        ("jax", "1.0", False),
        ("pennylane-lightning", "0.45.1", True),
        ("pennylane-lightning", "0.46.0-dev3", False),
        ("numpy", "7", True),
    ],
)
def test_versions(package, version, supported):
    assert _versions.is_supported(package, version) is supported


def test_the_package_depends_on_what_is_supported():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = sum(project["optional-dependencies"].values(), [])
    required = set(project["dependencies"] + extras)
    for package in _versions.SUPPORTED.keys() - {"diastatic-malt"}:  # comes with PennyLane
        assert package + _versions.SUPPORTED[package] in required


def test_an_unknown_jax_is_one_warning(monkeypatch):
    monkeypatch.setattr(jax, "__version__", "0.13.1")
    with pytest.warns(UserWarning, match=r"jax 0.13.1 is not .*>=0.10,<0.13") as caught:
        _versions.warn_of_unknown_jax()
    assert len(caught) == 1
    monkeypatch.setattr(jax, "__version__", "0.11.2")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _versions.warn_of_unknown_jax()


def test_an_import_warns_at_the_users_line(run_script):
    warned = run_script(
        """
        import warnings
        import jax
        jax.__version__ = "0.13.1"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import bellhop
            import bellhop.debug
        print([(str(w.message)[:10], w.filename) for w in caught])
        """
    )
    assert warned == "[('jax 0.13.1', '<string>')]\n"
