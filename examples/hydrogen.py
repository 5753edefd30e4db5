"""The hydrogen molecule in the STO-3G basis: its qubit Hamiltonian by bond length.

Integrals of s-type Gaussians in closed form (A. Szabo and N. S. Ostlund, *Modern Quantum
Chemistry*, appendix A), molecular orbitals by symmetry, and the Jordan-Wigner map.  Plain
NumPy and SciPy: to a compiled program all of it is one callback.
"""

import numpy as np
import scipy.special

# STO-3G for hydrogen, zeta = 1.24.
EXPONENTS = np.array([3.42525091, 0.62391373, 0.16885540])
CONTRACTION = np.array([0.15432897, 0.53532814, 0.44463454])

# Wires 0 and 1 are the bonding orbital with spin up and down, 2 and 3 the antibonding one.
PAULI_WORDS = (
    "IIII",
    "ZIII",
    "IZII",
    "IIZI",
    "IIIZ",
    "ZZII",
    "ZIZI",
    "ZIIZ",
    "IZZI",
    "IZIZ",
    "IIZZ",
    "YXXY",
    "XXYY",
    "YYXX",
    "XYYX",
)


def boys(t):
    """Return the Boys function of order zero; complex arguments are fine."""
    small = np.abs(t) < 1e-10
    safe = np.where(small, 1.0, t)
    root = np.sqrt(safe)
    return np.where(small, 1 - t / 3, 0.5 * np.sqrt(np.pi) / root * scipy.special.erf(root))


def primitives(distance):
    """Return exponents, centres and weights of the six primitives of both atoms."""
    weights = CONTRACTION * (2 * EXPONENTS / np.pi) ** 0.75
    exponents = np.tile(EXPONENTS, 2)
    centres = np.repeat(np.array([0.0 * distance, distance]), 3)
    return exponents, centres, np.tile(weights, 2)


def atomic_integrals(distance):
    """Return overlap, one-electron and two-electron integrals over the two atomic orbitals."""
    a, x, w = primitives(distance)
    p = a[:, None] + a[None, :]
    mu = a[:, None] * a[None, :] / p
    r2 = (x[:, None] - x[None, :]) ** 2
    gauss = np.exp(-mu * r2) * w[:, None] * w[None, :]
    overlap = (np.pi / p) ** 1.5 * gauss
    kinetic = mu * (3 - 2 * mu * r2) * overlap
    centre = (a[:, None] * x[:, None] + a[None, :] * x[None, :]) / p
    attraction = sum(
        -2 * np.pi / p * gauss * boys(p * (centre - nucleus) ** 2) for nucleus in (0.0, distance)
    )
    p1, p2 = p[:, :, None, None], p[None, None, :, :]
    separation = (centre[:, :, None, None] - centre[None, None, :, :]) ** 2
    repulsion = (
        2
        * np.pi**2.5
        / (p1 * p2 * np.sqrt(p1 + p2))
        * gauss[:, :, None, None]
        * gauss[None, None, :, :]
        * boys(p1 * p2 / (p1 + p2) * separation)
    )
    contract = np.kron(np.eye(2), np.ones((1, 3)))
    one = [contract @ m @ contract.T for m in (overlap, kinetic + attraction)]
    two = np.einsum("ai,bj,ck,dl,ijkl->abcd", *[contract] * 4, repulsion)
    return (*one, two)


def coefficients(distance):
    """Return the coefficients of ``PAULI_WORDS`` in hartree.

    Args:
        distance: bond length in bohr; a complex one gives derivatives by complex steps.
    """
    overlap, core, repulsion = atomic_integrals(distance)
    s = overlap[0, 1]
    orbitals = np.array([[1, 1] / np.sqrt(2 * (1 + s)), [1, -1] / np.sqrt(2 * (1 - s))])
    h = orbitals @ core @ orbitals.T
    two = np.einsum("ia,jb,kc,ld,abcd->ijkl", *[orbitals] * 4, repulsion)
    j_g, j_u, j_gu, k = two[0, 0, 0, 0], two[1, 1, 1, 1], two[0, 0, 1, 1], two[0, 1, 0, 1]
    shared = j_gu / 4 + (j_gu - k) / 4
    z_g = -h[0, 0] / 2 - j_g / 4 - shared
    z_u = -h[1, 1] / 2 - j_u / 4 - shared
    constant = 1 / distance + h[0, 0] + h[1, 1] + j_g / 4 + j_u / 4 + 2 * shared
    same_spin, opposite_spin = (j_gu - k) / 4, j_gu / 4
    return np.array(
        [constant, z_g, z_g, z_u, z_u, j_g / 4, same_spin, opposite_spin]
        + [opposite_spin, same_spin, j_u / 4, k / 4, -k / 4, -k / 4, k / 4]
    )


def coefficient_derivatives(distance):
    """Return the derivatives of ``coefficients`` by the bond length, exact by a complex step."""
    step = 1e-30
    return coefficients(distance + 1j * step).imag / step
