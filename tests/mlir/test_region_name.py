"""The names of regions, as frontend and compiler write and read them."""

from bellhop_mlir.region_name import RegionName, find_region_functions


def test_what_is_written_is_read() -> None:
    name = RegionName("cuda:1", "<lambda>")
    assert str(name) == "accelerate_cuda_1___lambda_"
    assert RegionName.parse(str(name)) == RegionName("cuda:1", "_lambda_")


def test_what_jax_adds_stays_with_the_function() -> None:
    assert RegionName.parse("accelerate_cpu_0__f_1") == RegionName("cpu:0", "f_1")


def test_other_names() -> None:
    assert RegionName.parse("f") is None
    assert RegionName.parse("my_accelerate_cpu_0__f") is None


def test_functions_in_a_location() -> None:
    location = 'loc("jit(f)/jit(accelerate_cuda_0__layer)/jvp(jit(accelerate_cuda_0__layer))/mul")'
    assert find_region_functions(location) == ["layer"]
    assert find_region_functions('loc("jit(f)/mul")') == []
