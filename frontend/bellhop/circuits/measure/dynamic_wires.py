"""Rewrite measurements on traced wires as measurements on static wires.

Devices measure static observables; only the coefficients of sums are traced.  So an observable on a
traced wire ``i`` becomes the sum of this observable on every wire, with coefficient 1 on wire ``i``
and 0 elsewhere.  With several traced wires, the sum has a term for each assignment of distinct
wires.  Probabilities of traced wires are sums of the probabilities of all wires.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml

from bellhop.circuits.ir.answers import MeasurementSite
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.errors import CompileError

# Largest number of terms of an observable on traced wires.
_MAX_TERMS = 4096


def expand_dynamic_wires(
    observable: qml.operation.Operator,
    process: qml.measurements.MeasurementProcess,
    site: MeasurementSite,
) -> Any:
    """Rewrite an observable on traced wires as an equivalent one on static wires.

    ``X(i)`` on two wires becomes ``(i == 0) * X(0) + (i == 1) * X(1)``.

    Args:
        observable: PennyLane operator, some of whose wires may be traced.
        process: the process that measures the observable, for errors.
        site: the backend's circuit after its gates, to which a check of traced wires is added.

    Returns:
        PennyLane operator with the same expectation value and variance; ``observable`` itself if no
        wire is traced.

    Raises:
        CompileError: if the sum has too many terms, or the observable is a product of sums or has
            two factors on the same traced wire.
    """
    with qml.QueuingManager.stop_recording():
        return _expand(observable, process, site)


def make_dynamic_wire_marginal(
    site: MeasurementSite, process: qml.measurements.MeasurementProcess
) -> Callable[[Any], Any]:
    """Make a function that computes the marginal probabilities of traced wires.

    Args:
        site: the backend's circuit after its gates, to which a check of traced wires is added.
        process: PennyLane's ``probs`` of wires, some of them traced.

    Returns:
        a function from the probabilities of all wires, an array ``[2**all wires]``, to the
        probabilities of the process's wires, an array ``[2**wires of the process]``.
    """
    with qml.QueuingManager.stop_recording():
        site.check_wires(process.wires, process)
    wires = list(map(site.wires.get_qubit, process.wires))
    n = len(site.wires)
    states = jnp.arange(2**n)
    outcomes = sum(
        ((states >> (n - 1 - wire)) & 1) << place for place, wire in enumerate(reversed(wires))
    )
    return lambda of_all: jax.ops.segment_sum(of_all, outcomes, 2 ** len(wires))


def _expand(
    observable: qml.operation.Operator,
    process: qml.measurements.MeasurementProcess,
    site: MeasurementSite,
) -> Any:
    """Rewrite an observable on traced wires as a sum on static wires.

    Implements `expand_dynamic_wires`, and calls itself for the terms of sums. PennyLane's queue
    must not record.

    Args:
        observable: PennyLane operator; returned unchanged if all its wires are static.
        process: the process that measures the observable, for errors.
        site: the backend's circuit after its gates, to which a check of traced wires is added.
    """
    if not any(map(is_dynamic, observable.wires)):
        return observable
    known = lambda part: _expand(part, process, site)
    if isinstance(observable, qml.ops.LinearCombination):
        coefficients, terms = observable.terms()
        return qml.ops.LinearCombination(coefficients, list(map(known, terms)))
    if isinstance(observable, qml.ops.Sum):
        return qml.sum(*map(known, observable.operands))
    if isinstance(observable, qml.ops.SProd):
        return qml.s_prod(observable.scalar, known(observable.base))
    scalar, factors = _split_product(observable)
    for factor in factors:
        if isinstance(factor, qml.ops.CompositeOp):
            raise CompileError(
                f"{site.where}: a product of sums of observables on a traced wire is not supported "
                "by bellhop. Use a sum of products of Pauli operators."
            )
        if isinstance(factor, qml.ops.SymbolicOp):
            raise CompileError(
                f"{site.where}: an observable with the factor {factor.name} is not supported on a "
                "traced wire by bellhop. Use a sum of products of Pauli operators."
            )
    terms = _sum_over_wires(factors, process, site)
    return terms if scalar is None else qml.s_prod(scalar, terms)


def _split_product(observable: qml.operation.Operator) -> tuple[Any, list[Any]]:
    """Flatten nested products, and multiply their scalar factors.

    ``2 * X(0) @ (3 * Z(1))`` gives ``(6, [X(0), Z(1)])``.

    Returns:
        the product of all scalars, or None if there is none; and a list of the other factors, in
        order.
    """
    if isinstance(observable, qml.ops.SProd):
        scalar, factors = _split_product(observable.base)
        return observable.scalar if scalar is None else observable.scalar * scalar, factors
    if not isinstance(observable, qml.ops.Prod):
        return None, [observable]
    scalar, factors = None, []
    for operand in observable.operands:
        one, some = _split_product(operand)
        scalar = one if scalar is None else scalar if one is None else scalar * one
        factors += some
    return scalar, factors


def _sum_over_wires(
    factors: list[Any], process: qml.measurements.MeasurementProcess, site: MeasurementSite
) -> Any:
    """Rewrite a product on traced wires as a sum with a term for each choice of wires.

    ``X(i) @ Z(0)`` on three wires becomes ``(i == 1) * X(1) @ Z(0) + (i == 2) * X(2) @ Z(0)``: all
    terms except one have the coefficient 0.

    Args:
        factors: the factors of the product.
        process: the measurement process that contains the product, for errors.
        site: the backend's circuit after its gates, to which a check of traced wires is added.

    Returns:
        PennyLane's ``LinearCombination`` on static wires, with traced coefficients 0 and 1.

    Raises:
        CompileError: for more than `_MAX_TERMS` terms, or if two factors share a traced wire.
    """
    wires = site.wires
    all_wires = [wire for factor in factors for wire in factor.wires]
    if len(set(map(id, all_wires))) < len(all_wires):
        raise CompileError(
            f"{site.where}: two observables of a product act on the same traced wire, expected "
            "one. Multiply the observables beforehand, such as X @ Y = 1j * Z."
        )
    site.check_wires(all_wires, process)
    computed = [wire for wire in all_wires if is_dynamic(wire)]
    known = {wire for wire in all_wires if not is_dynamic(wire)}
    free = [label for label in wires.labels if label not in known]
    if math.perm(len(free), len(computed)) > _MAX_TERMS:
        raise CompileError(
            f"{site.where}: an observable on {len(computed)} traced wires of {len(wires)} needs "
            f"more than {_MAX_TERMS} terms, one for each choice of the wires. Swap these wires "
            "with static wires before the measurement: qml.SWAP(wires=[i, 0])."
        )
    places = [wires.get_dynamic_qubit(wire) for wire in computed]
    coefficients, terms = [], []
    for labels in itertools.permutations(free, len(computed)):
        is_meant = [place == wires(label) for place, label in zip(places, labels, strict=True)]
        coefficients.append(jnp.all(jnp.stack(is_meant)).astype(Precision.real_type()))
        label_of = dict(zip(map(id, computed), labels, strict=True))
        moved = [_map_wires(factor, label_of) for factor in factors]
        terms.append(qml.prod(*moved) if len(moved) > 1 else moved[0])
    return qml.ops.LinearCombination(coefficients, terms)


def _map_wires(observable: qml.operation.Operator, label_of: Mapping[int, Any]) -> Any:
    """Return a copy of an observable in which static labels replace its traced wires.

    Args:
        observable: PennyLane operator.
        label_of: maps the ``id`` of each traced wire to its label.
    """
    labels = [label_of.get(id(wire), wire) for wire in observable.wires]
    return type(observable)(*observable.data, wires=labels)
