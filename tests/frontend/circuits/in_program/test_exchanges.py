"""Plans of exchanges, for any circuit over any number of devices."""

import functools
import heapq
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bellhop.circuits.backends.arrays.device_wires.diagonal_wires import GateWires
from bellhop.circuits.backends.arrays.device_wires.qubit_exchange import (
    ExchangePlacement,
    plan_exchanges,
    plan_segments,
)


@st.composite
def circuits(draw):
    n_wires = draw(st.integers(2, 8))
    k = draw(st.integers(1, n_wires - 1))
    gates = []
    for _ in range(draw(st.integers(0, 20))):
        wires = draw(st.permutations(range(n_wires)))[: draw(st.integers(1, min(3, n_wires)))]
        n_local = draw(st.integers(0, min(len(wires), n_wires - k)))
        gates.append(GateWires.from_wires(wires, wires[n_local:]))
    start = tuple(draw(st.permutations(range(n_wires)))[:k])
    end = draw(st.none() | st.permutations(range(n_wires)).map(lambda order: tuple(order[:k])))
    return gates, n_wires, start, end


def commute(one, other):
    shared = one.wires & other.wires
    return not shared & (one.nondiagonal | other.nondiagonal)


def naive(gates, n_wires, start, end):
    """Return the exchanges of bringing wires in where a gate needs them, one gate at a time."""
    devices, count = list(start), 0
    for gate in gates:
        missing = [axis for axis, wire in enumerate(devices) if wire in gate.nondiagonal]
        free = [w for w in range(n_wires) if w not in gate.nondiagonal and w not in devices]
        for axis, wire in zip(missing, free, strict=False):
            devices[axis] = wire
        count += bool(missing)
    return count + len(plan_exchanges(tuple(devices), end or tuple(devices)))


@settings(max_examples=40)
@given(circuits())
def test_gates_are_applied_once_where_they_are_local_and_in_an_order_that_means_the_same(circuit):
    gates, n_wires, start, end = circuit
    plan = plan_segments(gates, n_wires, start, end, can_choose_start=False)
    assert plan.start == start
    assert end in (None, plan.end)
    order = [number for segment in plan.segments for number in segment.gates]
    assert sorted(order) == list(range(len(gates)))
    for segment in plan.segments:
        assert len(set(segment.devices)) == len(start)
        assert all(gates[n].nondiagonal.isdisjoint(segment.devices) for n in segment.gates)
    place = {number: n for n, number in enumerate(order)}
    for late, gate in enumerate(gates):
        for early in range(late):
            assert commute(gates[early], gate) or place[early] < place[late]


@settings(max_examples=40)
@given(circuits())
def test_there_are_no_more_exchanges_than_of_one_gate_at_a_time(circuit):
    plan = plan_segments(*circuit, can_choose_start=False)
    assert len(plan.exchanges) <= naive(*circuit)
    gates, n_wires, start, _ = circuit
    free = plan_segments(gates, n_wires, start, None, can_choose_start=True)
    assert len(free.exchanges) <= len(
        plan_segments(gates, n_wires, start, None, can_choose_start=False).exchanges
    )


@settings(max_examples=40)
@given(circuits())
def test_exchanges_take_each_qubit_to_its_axis_and_back(circuit):
    _, n_wires, before, end = circuit
    after = end or before[::-1]
    devices, local = before, tuple(wire for wire in range(n_wires) if wire not in before)
    bits = np.arange(2**n_wires)[:, None] >> np.arange(n_wires) & 1
    steps = plan_exchanges(before, after)
    assert len(steps) <= 2
    for exchange in steps:
        place = ExchangePlacement(exchange, local)
        assert exchange.before == devices
        assert place.inverse.resulting_order == local
        for axis, there in zip(place.axes, place.positions, strict=True):
            assert (exchange.after[axis], place.resulting_order[there]) == (
                local[there],
                devices[axis],
            )
        devices, local = exchange.after, place.resulting_order
        assert sorted((*devices, *local)) == list(range(n_wires))
        # What a device sends: the amplitudes whose device is another one afterwards.
        differ = np.any(bits[:, exchange.before] != bits[:, devices], axis=1)
        np.testing.assert_allclose(exchange.sent_fraction, np.mean(differ))
    assert devices == after


def least(cost, gates, n_wires, k):
    """Return the least cost of all plans, each exchange's by how many wires are exchanged."""
    before = [
        [other for other in range(number) if not commute(gates[other], gate)]
        for number, gate in enumerate(gates)
    ]

    # What can be applied is applied at once: it never has to wait for what comes later.
    @functools.cache
    def rest(waiting, devices):
        left = set(waiting)
        for number in sorted(waiting):
            if gates[number].nondiagonal.isdisjoint(devices) and left.isdisjoint(before[number]):
                left.remove(number)
        return tuple(sorted(left))

    choices = list(map(frozenset, itertools.combinations(range(n_wires), k)))
    everything = tuple(range(len(gates)))
    ways = [(0, len(rest(everything, some)), rest(everything, some), some) for some in choices]
    ways.sort(key=lambda way: way[:2])
    found = {}
    while True:
        total, _, waiting, devices = heapq.heappop(ways)
        if not waiting:
            return total
        for some in choices:
            left, more = rest(waiting, some), total + cost(len(devices - some))
            # Two exchanges with nothing between them cost no less than one.
            if left != waiting and more < found.get((left, some), np.inf):
                found[left, some] = more
                heapq.heappush(ways, (more, len(left), left, some))


def ring(n_wires, layers):
    for _ in range(layers):
        yield from (GateWires.from_wires([wire]) for wire in range(n_wires))
        yield from (
            GateWires.from_wires([wire, (wire + 1) % n_wires], [wire]) for wire in range(n_wires)
        )


def brickwork(n_wires, layers):
    for layer in range(layers):
        yield from (GateWires.from_wires([wire]) for wire in range(n_wires))
        pairs = ([wire, wire + 1] for wire in range(layer % 2, n_wires - 1, 2))
        yield from (GateWires.from_wires(pair, pair) for pair in pairs)


def fourier(n_wires, _):
    for wire in range(n_wires):
        yield GateWires.from_wires([wire])
        yield from (GateWires.from_wires([wire, o], [wire, o]) for o in range(wire + 1, n_wires))
    yield from (GateWires.from_wires([wire, n_wires - 1 - wire]) for wire in range(n_wires // 2))


def qaoa(n_wires, layers):
    pairs = list(itertools.combinations(range(n_wires), 2))[::3]
    yield from (GateWires.from_wires([wire]) for wire in range(n_wires))
    for _ in range(layers):
        yield from (GateWires.from_wires(pair, pair) for pair in pairs)
        yield from (GateWires.from_wires([wire]) for wire in range(n_wires))


@pytest.mark.parametrize("size", [(6, 1), (6, 2), (7, 2)])
@pytest.mark.parametrize("family", [ring, brickwork, fourier, qaoa])
def test_no_plan_has_fewer_exchanges_and_none_sends_much_less(family, size):
    n_wires, k = size
    gates = list(family(n_wires, 3))
    plan = plan_segments(gates, n_wires, tuple(range(k)), None, can_choose_start=True)
    assert len(plan.exchanges) == least(lambda _: 1, gates, n_wires, k)
    sent = least(lambda wires: 1 - 0.5**wires, gates, n_wires, k)
    assert sent <= plan.sent_fraction <= 1.3 * sent


def test_layers_take_one_exchange_each_and_a_fourier_transform_one():
    layer = [GateWires.from_wires([q]) for q in range(34)]
    layer += [GateWires.from_wires([q, (q + 1) % 34], [q]) for q in range(34)]
    plan = plan_segments(layer * 4, 34, (0, 1, 2), None, can_choose_start=True)
    assert len(plan.exchanges) <= 4
    transform = []
    for qubit in range(20):
        transform.append(GateWires.from_wires([qubit]))
        others = range(qubit + 1, 20)
        transform += [GateWires.from_wires([qubit, other], [qubit, other]) for other in others]
    assert len(plan_segments(transform, 20, (0, 1, 2), None, can_choose_start=True).exchanges) == 1
