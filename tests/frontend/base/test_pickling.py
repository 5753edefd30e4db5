"""What stands in the place of a function is pickled and copied as functions are."""

import builtins
import copy
import io
import marshal
import pickle
import subprocess
import sys
import types

import pytest
from tests.needs import CLOUDPICKLE
from tests.patience import PATIENCE

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


def _shell(code, n_cells):
    names, cells = {"__builtins__": builtins}, tuple(types.CellType() for _ in range(n_cells))
    return types.FunctionType(marshal.loads(code), names, closure=cells)


def _fill(function, state):
    names, contents, attributes = state
    function.__globals__.update(names)
    for cell, content in zip(function.__closure__ or (), contents, strict=True):
        cell.cell_contents = content
    for name, value in attributes.items():
        setattr(function, name, value)


class Whole(pickle.Pickler):
    """Sends functions of this file whole, as cloudpickle does those of a script."""

    def reducer_override(self, function):
        is_mine = isinstance(function, types.FunctionType) and function.__module__ == __name__
        if not is_mine or function in (_shell, _fill):
            return NotImplemented
        known, code = function.__globals__, function.__code__
        used = {name: known[name] for name in code.co_names if name in known}
        contents = [cell.cell_contents for cell in function.__closure__ or ()]
        attributes = ("__defaults__", "__qualname__", "__module__")
        state = used, contents, {name: getattr(function, name) for name in attributes}
        return _shell, (marshal.dumps(code), len(contents)), state, None, None, _fill


@bellhop.qjit(seed=3)
def names_itself(x):
    return 2 * calls_back(x)


@bellhop.pure_callback
def calls_back(x) -> float:
    return float(names_itself(x - 1)) if x > 0 else 1.0


@calls_back.fwd
def _(x):
    return calls_back(x), x


@calls_back.bwd
def _(x, ct):
    return ct * accelerated(x)


@pytest.mark.parametrize("function", [names_itself, calls_back, accelerated])
def test_what_sends_functions_whole_sends_these(function):
    file = io.BytesIO()
    Whole(file, pickle.HIGHEST_PROTOCOL).dump(function)
    sent = pickle.loads(file.getvalue())
    assert sent is not function
    assert (type(sent), sent(2.0)) == (type(function), function(2.0))
    # Nothing that was left behind is kept by that.
    assert pickle.loads(pickle.dumps(function)) is function


@CLOUDPICKLE.mark
@pytest.mark.subprocess
def test_functions_of_a_script_are_sent_to_a_worker(run_script, tmp_path):
    script = """
    import bellhop, cloudpickle, pennylane as qml
    @bellhop.pure_callback
    def triple(x) -> float:
        return 3 * float(x)
    @triple.jvp
    def _(primals, tangents):
        return triple(*primals), 3 * tangents[0]
    @bellhop.qjit(autograph=True)
    @bellhop.grad
    def f(x):
        return triple(x) * triple(x)
    print(float(f(2.0)))
    open(PATH, "wb").write(cloudpickle.dumps(f))
    """.replace("PATH", repr(str(tmp_path / "f")))
    assert run_script(script) == "36.0\n"
    read = f"import pickle; print(float(pickle.load(open({str(tmp_path / 'f')!r}, 'rb'))(2.0)))"
    assert run_script(read) == "36.0\n"


@pytest.mark.subprocess
def test_a_pool_of_new_processes(tmp_path):
    """They have run the script, and find the function by its name, which nobody pickled there."""
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing\n"
        "import bellhop\n\n"
        "@bellhop.qjit\n"
        "def square(x):\n"
        "    return x * x\n\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        f"        print(*map(float, pool.map_async(square, [2.0, 3.0]).get({PATIENCE})))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.stdout == "4.0 9.0\n", done.stderr
