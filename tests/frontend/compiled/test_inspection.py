"""What a compiled function shows of its stages."""

import jax.numpy as jnp
import numpy as np
import pytest

import bellhop


@pytest.mark.parametrize("stage", ["jaxpr", "mlir", "mlir_opt"])
def test_looking_inside_before_the_first_call_is_an_error(stage):
    with pytest.raises(bellhop.CompileError, match="has not been compiled: call it first"):
        getattr(bellhop.qjit(lambda x: x), stage)


def test_looking_inside(own_directory):
    @bellhop.qjit(keep_intermediate=True)
    def f(x):
        bellhop.debug.print("{}", x)
        return bellhop.accelerate(jnp.sin)(bellhop.pure_callback(np.cos, float)(x))

    f(1.0)
    assert "bellhop_pure_callback" in str(f.jaxpr)
    assert '"callback.call"' in f.mlir
    assert "accelerate_cpu_0__sin" in f.mlir
    assert "accelerate" not in f.mlir_opt
    text = bellhop.debug.get_compilation_stage(f, "convert-callback-to-runtime")
    assert "@bellhop_callback" in text
    with pytest.raises(bellhop.CompileError, match="has no stage 'nonsense'; there are .*effects"):
        bellhop.debug.get_compilation_stage(f, "nonsense")


def test_stages_are_kept_on_demand_only():
    f = bellhop.qjit(lambda x: x)
    f(1.0)
    with pytest.raises(bellhop.CompileError, match="keep_intermediate=True"):
        bellhop.debug.get_compilation_stage(f, "outline-regions")


def test_lower_shows_the_whole_program():
    f = bellhop.qjit(lambda x: bellhop.pure_callback(np.sin, float)(x))
    lowered = f.lower(1.0)
    assert "bellhop_callback" in lowered.as_text()
    assert f(1.0) == np.sin(1.0)
