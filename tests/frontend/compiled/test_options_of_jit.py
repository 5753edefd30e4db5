"""qjit takes the options of jax.jit, with the same meaning, or says why it does not."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop


def test_there_is_no_option_of_jit_that_qjit_does_not_know():
    values = {"static_argnums": (), "donate_argnums": (), "keep_unused": False, "inline": False}
    for name, parameter in inspect.signature(jax.jit).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            bellhop.qjit(lambda x: x, **{name: values.get(name)})


@pytest.mark.parametrize(
    ("option", "is_donated"),
    [
        ({"donate_argnames": "x"}, (True, True)),
        ({"donate_argnums": 1}, (True, True)),
        ({"donate_argnums": (), "donate_argnames": ["x"]}, (False, True)),
        ({"donate_argnums": 1, "donate_argnames": ()}, (True, False)),
    ],
    ids=repr,
)
def test_arguments_are_donated_by_position_and_keyword(option, is_donated):
    def function(n, x, y=1.0):
        return x * n + y

    f = bellhop.qjit(function, static_argnums=0, **option)
    # The reference has no static argument, whose position is 0.
    reference = jax.jit(function, static_argnums=0, **option)
    for each in (f, reference):
        arrays = jnp.ones(3), jnp.ones(3)
        each(2, arrays[0])
        each(2, x=arrays[1])
        assert tuple(array.is_deleted() for array in arrays) == is_donated


def test_a_donated_keyword_of_a_region_is_copied():
    @bellhop.accelerate(dev=jax.devices("cpu")[-1])
    def double(x):
        return 2 * x

    f = bellhop.qjit(lambda x: (double(x), x + 1), donate_argnames="x")
    x = jnp.arange(3.0)
    doubled, more = f(x=x)
    np.testing.assert_array_equal(doubled, [0, 2, 4])
    np.testing.assert_array_equal(more, [1, 2, 3])


def test_wrong_donations_are_refused():
    with pytest.raises(ValueError, match="donate_argnames has 'z', expected names of parameters"):
        bellhop.qjit(lambda x: x, donate_argnames="z")
    with pytest.raises(
        ValueError,
        match="donate_argnames has 'x', which is a static argument. Name dynamic arguments",
    ):
        bellhop.qjit(lambda x: x, static_argnames="x", donate_argnames="x")


def test_unused_arguments_are_kept():
    def function(x, y):
        return x + 1

    for keep, kept in [(False, {1}), (True, {1, 2})]:
        f = bellhop.qjit(function, keep_unused=keep)
        assert f(1.0, np.ones(3)) == 2
        text = f.compiled_function.as_text()
        parameters = {line for line in text.splitlines() if "ENTRY" not in line}
        assert any("f64[3]" in line for line in parameters) == (2 in kept)


def test_options_of_xla_reach_the_compiler():
    f = bellhop.qjit(lambda x: x + 1, compiler_options={"xla_no_such_option": True})
    with pytest.raises(jax.errors.JaxRuntimeError, match="xla_no_such_option"):
        f(1.0)
    options = {"xla_cpu_enable_fast_min_max": True}
    f = bellhop.qjit(lambda x: jnp.maximum(x, 0.5), compiler_options=options)
    assert f(1.0) == 1
    assert jax.grad(f)(1.0) == 1
    with pytest.raises(bellhop.CompileError, match="compiler_options, which cannot be saved"):
        f.save("never")
    with pytest.raises(TypeError, match="compiler_options takes XLA options by name"):
        bellhop.qjit(lambda x: x, compiler_options=3)
    lowered = bellhop.qjit(lambda x: x + 1).lower(1.0)
    assert lowered.compile(options)(2.0) == 3
    with pytest.raises(jax.errors.JaxRuntimeError, match="xla_no_such_option"):
        lowered.compile(compiler_options={"xla_no_such_option": True})


@pytest.mark.parametrize("inline", [False, True])
def test_a_function_is_inlined_in_others(inline):
    f = bellhop.qjit(lambda x: 2 * x, inline=inline)
    assert [str(eqn.primitive) for eqn in jax.make_jaxpr(f)(1.0).eqns] == ["mul"]


def test_a_program_runs_on_the_host():
    f = bellhop.qjit(lambda x: 2 * x, backend="cpu", device=jax.devices("cpu")[0])
    assert f(1.0) == 2
    sharding = jax.sharding.SingleDeviceSharding(jax.devices("cpu")[0])
    for option in ({"in_shardings": sharding}, {"backend": "tpu"}, {"device": "gpu:0"}):
        with pytest.raises(
            bellhop.CompileError, match="of jax.jit is not supported: a qjit program runs on one"
        ):
            bellhop.qjit(lambda x: x, **option)


def test_a_donated_array_that_is_passed_twice_is_named():
    add = bellhop.qjit(lambda x, y: x + y, donate_argnums=0)
    double = bellhop.qjit(lambda tree: jax.tree.map(lambda v: 2 * v, tree), donate_argnums=0)
    array = jnp.zeros(10)
    # The first call compiles, and the second is a fast call.
    for _ in range(2):
        with pytest.raises(ValueError, match="argument x is donated .*, and the argument y is the"):
            add(array, array)
    with pytest.raises(ValueError, match=r"argument tree\['a'\] is donated .* tree\['b'\] is"):
        double({"a": array, "b": array})
    assert add(array, array.copy()).sum() == 0
    ahead = add.lower(array, array).compile()
    region = bellhop.accelerate(lambda x, y: x + y, donate_argnums=0)
    for call in (ahead, ahead, region, region):
        array = jnp.zeros(10)
        with pytest.raises(ValueError, match="argument x is donated .*, and the argument y is the"):
            call(array, array)
