"""The examples run as a user runs them, and what they compute is right."""

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pennylane as qml
import pytest
from tests.patience import PATIENCE

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(monkeypatch):
    """Import an example by name, as if from its own folder."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module


def run(name: str) -> str:
    completed = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, timeout=PATIENCE
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


@pytest.mark.subprocess
def test_callbacks_and_gpus_prints_the_documented_values():
    output = run("callbacks_and_gpus.py")
    for value in (
        "Array(0.66666667, dtype=float64)",
        "Array(3., dtype=float64)",
        "Array(4.20735492+0.j, dtype=complex128)",
        "[2.80120452, 1.67518663]",
        "[1.61605839, 4.42856163]",
    ):
        assert value in output


@pytest.mark.subprocess
def test_h2_vqe_reaches_the_known_energy_and_logs_from_inside():
    output = run("h2_vqe.py")
    logged = [line for line in output.splitlines() if line.startswith("step")]
    assert [int(line.split()[1]) for line in logged] == list(range(0, 250, 25))
    energies = [float(line.split()[3]) for line in logged]
    assert energies == sorted(energies, reverse=True)
    assert "second call" in output


@pytest.mark.parametrize("distance", [1.0, 1.4, 2.5])
def test_hydrogen_coefficients_agree_with_pennylane(example, distance):
    hydrogen = example("hydrogen")
    geometry = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, distance]])
    molecule = qml.qchem.Molecule(["H", "H"], geometry)
    reference, _ = qml.qchem.molecular_hamiltonian(molecule, method="dhf")
    expected = reference.pauli_rep
    for word, coefficient in zip(
        hydrogen.PAULI_WORDS, hydrogen.coefficients(distance), strict=True
    ):
        key = qml.pauli.PauliWord({i: p for i, p in enumerate(word) if p != "I"})
        assert coefficient == pytest.approx(complex(expected[key]).real, abs=1e-7)


def test_hydrogen_derivatives_agree_with_finite_differences(example):
    hydrogen = example("hydrogen")
    step = 1e-5
    difference = (hydrogen.coefficients(1.4 + step) - hydrogen.coefficients(1.4 - step)) / (
        2 * step
    )
    assert hydrogen.coefficient_derivatives(1.4) == pytest.approx(difference, abs=1e-8)


def test_known_energy_is_that_of_exact_diagonalisation(example):
    hydrogen, h2_vqe = example("hydrogen"), example("h2_vqe")
    import scipy.optimize

    def ground_state(distance):
        observables = [
            qml.pauli.string_to_pauli_word(word) if set(word) != {"I"} else qml.Identity(0)
            for word in hydrogen.PAULI_WORDS
        ]
        matrix = qml.matrix(
            qml.Hamiltonian(hydrogen.coefficients(distance), observables), wire_order=range(4)
        )
        return np.linalg.eigvalsh(matrix)[0]

    best = scipy.optimize.minimize_scalar(ground_state, bounds=(1.2, 1.6), method="bounded")
    assert best.fun == pytest.approx(h2_vqe.KNOWN_ENERGY, abs=1e-7)
