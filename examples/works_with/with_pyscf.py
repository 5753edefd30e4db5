"""Find the bond length of H2 with integrals of PySCF in a callback."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pyscf.ao2mo
import pyscf.gto
import pyscf.scf
import scipy.optimize

import bellhop


def pauli_sentence(distance):
    """Return the qubit Hamiltonian of H2 at a distance in bohr."""
    molecule = pyscf.gto.M(atom=f"H 0 0 0; H 0 0 {distance}", unit="bohr", basis="sto-3g")
    field = pyscf.scf.RHF(molecule).run(verbose=0, conv_tol=1e-12)
    orbitals = field.mo_coeff
    one = orbitals.T @ field.get_hcore() @ orbitals
    two = pyscf.ao2mo.restore(1, pyscf.ao2mo.kernel(molecule, orbitals), 2).swapaxes(1, 3)
    constant = np.array([field.energy_nuc()])
    return qml.jordan_wigner(qml.qchem.fermionic_observable(constant, one, two), ps=True)


words = list(pauli_sentence(1.4))
observables = [word.operation(wire_order=range(4)) for word in words]


@bellhop.pure_callback
def coefficients(distance) -> jax.ShapeDtypeStruct((len(words),), float):
    sentence = pauli_sentence(float(distance))
    return np.array([sentence[word].real for word in words])


@coefficients.jvp
def coefficients_jvp(primals, tangents):
    (distance,), (change,), h = primals, tangents, 1e-3
    slope = (coefficients(distance + h) - coefficients(distance - h)) / (2 * h)
    return coefficients(distance), slope * change


@qml.qnode(qml.device("lightning.qubit", wires=4))
def expectation(angle, coefficients):
    qml.BasisState(np.array([1, 1, 0, 0]), wires=range(4))
    qml.DoubleExcitation(angle, wires=[0, 1, 2, 3])
    return qml.expval(qml.Hamiltonian(coefficients, observables))


@bellhop.qjit
@bellhop.value_and_grad
def energy(x):
    return expectation(x[0], coefficients(x[1]))


found = scipy.optimize.minimize(energy, x0=jnp.array([0.0, 1.2]), jac=True, method="BFGS")
print(f"{found.fun:.5f} hartree at {found.x[1]:.3f} bohr")
