"""io_callback(partitioned=True): each device, and so each process, calls with its own part."""

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from tests.processes import run_in_processes

import bellhop
from bellhop.errors import ResultTypeError

X = np.arange(8.0).reshape(4, 2)
ROWS = PartitionSpec("rows")
FORMS = {"jit": jax.jit, "eager": lambda f: f}


@pytest.fixture
def mesh():
    return jax.make_mesh((2,), ("rows",), (AxisType.Explicit,), devices=jax.devices("cpu")[:2])


@pytest.fixture
def seen():
    return []


def doubling(seen, **options):
    def double(x, *rest):
        seen.append((x.tolist(), *(np.array(y).tolist() for y in rest)))
        return 2 * x

    return lambda kind: bellhop.io_callback(double, kind, partitioned=True, **options)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_each_device_is_called_with_its_part_and_returns_it(form, mesh, seen):
    halves = NamedSharding(mesh, ROWS)
    double = doubling(seen)(jax.ShapeDtypeStruct(X.shape, float, sharding=halves))
    result = form(lambda x: double(x, 3))(jax.device_put(X, halves))
    np.testing.assert_array_equal(result, 2 * X)
    assert result.sharding.is_equivalent_to(halves, 2)
    assert sorted(seen) == [(X[:2].tolist(), 3), (X[2:].tolist(), 3)]


def test_a_call_outside_of_programs_waits_for_its_effects(mesh, seen):
    x = jax.device_put(X, NamedSharding(mesh, ROWS))
    bellhop.io_callback(lambda x: seen.append(x.tolist()), None, x, partitioned=True)
    # Nothing has the program any more, nor a result of it.
    assert sorted(seen) == [X[:2].tolist(), X[2:].tolist()]


def test_parts_of_elements_of_a_batch(mesh, seen):
    columns = NamedSharding(mesh, PartitionSpec("rows"))
    double = doubling(seen)(jax.ShapeDtypeStruct((4,), float, sharding=columns))
    x = jax.device_put(X.T, NamedSharding(mesh, PartitionSpec(None, "rows")))
    np.testing.assert_array_equal(jax.jit(jax.vmap(double))(x), 2 * X.T)
    assert sorted(seen) == [([0.0, 2.0],), ([1.0, 3.0],), ([4.0, 6.0],), ([5.0, 7.0],)]


def test_without_arguments_the_result_says_who_calls(mesh):
    parts = iter([np.ones(2), np.ones(2)])
    kind = jax.ShapeDtypeStruct((4,), float, sharding=NamedSharding(mesh, ROWS))
    read = bellhop.io_callback(lambda: next(parts), kind, partitioned=True)
    np.testing.assert_array_equal(jax.jit(read)(), np.ones(4))


@pytest.mark.parametrize("kind", [AxisType.Explicit, AxisType.Auto])
def test_without_results_xla_may_spread_the_array(kind, seen):
    mesh = jax.make_mesh((2,), ("rows",), (kind,), devices=jax.devices("cpu")[:2])
    log = bellhop.io_callback(lambda x: seen.append(x.tolist()), partitioned=True)
    x = jax.device_put(X, NamedSharding(mesh, ROWS))
    np.testing.assert_array_equal(jax.jit(lambda x: (log(x), 2 * x)[1])(x), 2 * X)
    assert sorted(seen) == [X[:2].tolist(), X[2:].tolist()]


def test_in_shard_map_and_on_one_device_it_is_a_call_of_each(mesh, seen):
    double = doubling(seen)
    kind = jax.ShapeDtypeStruct((2, 2), float, sharding=NamedSharding(mesh, PartitionSpec()))
    each = jax.shard_map(double(kind), mesh=mesh, in_specs=ROWS, out_specs=ROWS)
    np.testing.assert_array_equal(
        jax.jit(each)(jax.device_put(X, NamedSharding(mesh, ROWS))), 2 * X
    )
    assert sorted(seen) == [(X[:2].tolist(),), (X[2:].tolist(),)]
    log = bellhop.io_callback(lambda x: seen.append(x.tolist()), partitioned=True)
    bellhop.qjit(log)(X)
    assert seen[2:] == [X.tolist()]


def test_what_does_not_say_its_parts_is_refused(mesh, seen):
    with pytest.raises(ResultTypeError, match="has no sharding"):
        doubling(seen)(jax.ShapeDtypeStruct(X.shape, float))
    with pytest.raises(ValueError, match="the calls of several devices have no order"):
        doubling(seen, ordered=True)(None)
    halves = NamedSharding(mesh, ROWS)
    double = doubling(seen)(jax.ShapeDtypeStruct(X.shape, float, sharding=halves))
    other = jax.make_mesh((2,), ("columns",), devices=jax.devices("cpu")[:2])
    with pytest.raises(ValueError, match="are on different meshes. Put them on one"):
        double(jax.device_put(X, NamedSharding(other, PartitionSpec("columns"))))
    automatic = jax.make_mesh((2,), ("rows",), (AxisType.Auto,), devices=jax.devices("cpu")[:2])
    rows = NamedSharding(automatic, ROWS)
    double = doubling(seen)(jax.ShapeDtypeStruct(X.shape, float, sharding=rows))
    with pytest.raises(ValueError, match="of its argument 0, .*, has no sharding"):
        jax.jit(double)(jax.device_put(X, rows))
    assert seen == []
    # Outside of programs the array itself says it.
    np.testing.assert_array_equal(double(jax.device_put(X, rows)), 2 * X)


def test_an_exception_of_one_device_reaches_the_caller(mesh):
    def check(x):
        if x[0, 0] > 0:
            raise ValueError("the second part")

    f = jax.jit(lambda x: (bellhop.io_callback(check, partitioned=True)(x), 2 * x)[1])
    with pytest.raises(ValueError, match="the second part"):
        f(jax.device_put(X, NamedSharding(mesh, ROWS)))
    jax.effects_barrier()  # which finds nothing of the failed run


PROGRAM = """
from jax.sharding import NamedSharding, PartitionSpec as P
X = np.arange(8.0).reshape(4, 2)
mesh = jax.make_mesh((2,), ("rows",))
rows = NamedSharding(mesh, P("rows"))
x = jax.make_array_from_callback(X.shape, rows, lambda i: X[i])
seen = []
def double(x):
    seen.append(x.tolist())
    return 2 * x + jax.process_index()
kind = jax.ShapeDtypeStruct(X.shape, float, sharding=rows)
call = bellhop.io_callback(double, kind, partitioned=True)
log = bellhop.io_callback(lambda x: seen.append(x.tolist()), partitioned=True)
y = jax.jit(lambda x: (log(x + 1), call(x).sum(axis=1) + x[:, 0])[1])(x)
jax.effects_barrier()
(part,) = y.addressable_shards
print("RESULT", jax.process_index(), sorted(seen), part.data.tolist())
"""


@pytest.mark.subprocess
def test_each_of_two_processes_calls_with_its_own_part():
    for process, line in enumerate(run_in_processes(PROGRAM)):
        part = X[2 * process : 2 * process + 2]
        seen = sorted([part.tolist(), (part + 1).tolist()])
        result = (2 * part + process).sum(axis=1) + part[:, 0]
        assert line == f"RESULT {process} {seen} {result.tolist()}"
