"""Plans of exchanges, for any circuit over any number of devices."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bellhop.circuits.in_program.device_wires.exchanges import (
    Footprint,
    PlacedExchange,
    exchanges_between,
    planned,
)


@st.composite
def circuits(draw):
    n_wires = draw(st.integers(2, 8))
    k = draw(st.integers(1, n_wires - 1))
    gates = []
    for _ in range(draw(st.integers(0, 20))):
        wires = draw(st.permutations(range(n_wires)))[: draw(st.integers(1, min(3, n_wires)))]
        n_local = draw(st.integers(0, min(len(wires), n_wires - k)))
        gates.append(Footprint.of(wires, wires[n_local:]))
    start = tuple(draw(st.permutations(range(n_wires)))[:k])
    end = draw(st.none() | st.permutations(range(n_wires)).map(lambda order: tuple(order[:k])))
    return gates, n_wires, start, end


def commute(one, other):
    shared = one.wires & other.wires
    return not shared & (one.local | other.local)


def naive(gates, n_wires, start, end):
    """Return the exchanges of bringing wires in where a gate needs them, one gate at a time."""
    devices, count = list(start), 0
    for gate in gates:
        missing = [axis for axis, wire in enumerate(devices) if wire in gate.local]
        free = [w for w in range(n_wires) if w not in gate.local and w not in devices]
        for axis, wire in zip(missing, free, strict=False):
            devices[axis] = wire
        count += bool(missing)
    return count + len(exchanges_between(tuple(devices), end or tuple(devices)))


@settings(max_examples=40)
@given(circuits())
def test_gates_are_applied_once_where_they_are_local_and_in_an_order_that_means_the_same(circuit):
    gates, n_wires, start, end = circuit
    plan = planned(gates, n_wires, start, end, is_free=False)
    assert plan.start == start
    assert end in (None, plan.end)
    order = [number for segment in plan.segments for number in segment.gates]
    assert sorted(order) == list(range(len(gates)))
    for segment in plan.segments:
        assert len(set(segment.devices)) == len(start)
        assert all(gates[n].local.isdisjoint(segment.devices) for n in segment.gates)
    place = {number: n for n, number in enumerate(order)}
    for late, gate in enumerate(gates):
        for early in range(late):
            assert commute(gates[early], gate) or place[early] < place[late]


@settings(max_examples=40)
@given(circuits())
def test_there_are_no_more_exchanges_than_of_one_gate_at_a_time(circuit):
    plan = planned(*circuit, is_free=False)
    assert len(plan.exchanges) <= naive(*circuit)
    gates, n_wires, start, _ = circuit
    free = planned(gates, n_wires, start, None, is_free=True)
    assert len(free.exchanges) <= len(planned(gates, n_wires, start, None, is_free=False).exchanges)


@settings(max_examples=40)
@given(circuits())
def test_exchanges_take_each_qubit_to_its_axis_and_back(circuit):
    _, n_wires, before, end = circuit
    after = end or before[::-1]
    devices, local = before, tuple(wire for wire in range(n_wires) if wire not in before)
    bits = np.arange(2**n_wires)[:, None] >> np.arange(n_wires) & 1
    steps = exchanges_between(before, after)
    assert len(steps) <= 2
    for exchange in steps:
        place = PlacedExchange(exchange, local)
        assert exchange.before == devices
        assert place.reversed.after == local
        for axis, there in zip(place.axes, place.places, strict=True):
            assert (exchange.after[axis], place.after[there]) == (local[there], devices[axis])
        devices, local = exchange.after, place.after
        assert sorted((*devices, *local)) == list(range(n_wires))
        # What a device sends: the amplitudes whose device is another one afterwards.
        differ = np.any(bits[:, exchange.before] != bits[:, devices], axis=1)
        np.testing.assert_allclose(exchange.moved, np.mean(differ))
    assert devices == after


def test_layers_take_one_exchange_each_and_a_fourier_transform_one():
    layer = [Footprint.of([q]) for q in range(34)]
    layer += [Footprint.of([q, (q + 1) % 34], [q]) for q in range(34)]
    plan = planned(layer * 4, 34, (0, 1, 2), None, is_free=True)
    assert len(plan.exchanges) <= 4
    transform = []
    for qubit in range(20):
        transform.append(Footprint.of([qubit]))
        others = range(qubit + 1, 20)
        transform += [Footprint.of([qubit, other], [qubit, other]) for other in others]
    assert len(planned(transform, 20, (0, 1, 2), None, is_free=True).exchanges) == 1
