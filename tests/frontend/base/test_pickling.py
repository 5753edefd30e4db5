"""What stands in the place of a function is pickled and copied as functions are."""

import copy
import pickle

import pytest

import bellhop


@bellhop.qjit
def decorated(x):
    return 2 * x


def plain(x, n):
    return n * x


@bellhop.pure_callback
def pure(x) -> float:
    return float(x) + 1


@bellhop.accelerate
def accelerated(x):
    return 2 * x


@bellhop.io_callback(result_type=float)
def for_effect(x):
    return float(x) + 1


@bellhop.callback
def reported(x):
    pass


class Holder:
    @bellhop.pure_callback
    @staticmethod
    def inside(x) -> float:
        return float(x) + 1


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "function", [decorated, pure, accelerated, for_effect, reported, Holder.inside]
)
def test_what_a_name_leads_to_is_pickled_by_it(function, protocol):
    assert pickle.loads(pickle.dumps(function, protocol)) is function


def test_what_has_no_name_is_made_again():
    first = bellhop.qjit(plain, static_argnums=1, seed=3)
    again = pickle.loads(pickle.dumps(first))
    assert again is not first
    assert again.compile_options == first.compile_options
    assert again(2.0, 3) == 6.0
    assert pickle.loads(pickle.dumps(bellhop.pure_callback(abs, float)))(-1.0) == 1.0
    assert pickle.loads(pickle.dumps(bellhop.accelerate(plain, dev="cpu:1")))(2.0, 3) == 6.0


def test_what_is_made_of_no_named_function_is_not_pickled():
    with pytest.raises((pickle.PicklingError, AttributeError), match="<lambda>"):
        pickle.dumps(bellhop.qjit(lambda x: x))


def test_a_loaded_function_is_not_pickled(tmp_path):
    decorated(1.0)
    decorated.save(tmp_path / "decorated")
    loaded = bellhop.load(tmp_path / "decorated")
    with pytest.raises(pickle.PicklingError, match="call bellhop.load there"):
        pickle.dumps(loaded)
    assert copy.deepcopy(loaded) is loaded


def test_a_copy_is_the_function_itself():
    decorated(1.0)
    unnamed = bellhop.qjit(lambda x: x)
    for function in (decorated, unnamed):
        assert copy.copy(function) is function
        assert copy.deepcopy({"f": function})["f"] is function
