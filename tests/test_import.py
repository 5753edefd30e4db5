"""Importing bellhop costs little more than importing JAX: what is heavy waits until it is used."""

import importlib.metadata

import pytest

import bellhop


@pytest.mark.quick
def test_nothing_heavy_is_imported(run_script):
    loaded = run_script(
        """
        import sys
        import bellhop

        heavy = ["pennylane", "scipy.special", "torch", "rich", "tqdm", "matplotlib", "malt"]
        print([name for name in heavy if name in sys.modules])
        """
    )
    by_jax = run_script(
        """
        import sys
        import jax, jax.numpy

        print([name for name in ["scipy.special"] if name in sys.modules])
        """
    )
    assert loaded == by_jax


def test_the_version_is_that_of_the_distribution():
    assert bellhop.__version__ == importlib.metadata.version("pennylane-bellhop")
