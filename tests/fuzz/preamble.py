# ruff: noqa: F401
import contextlib
import functools
import gc
import io
import tempfile
import threading

import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np
import pennylane as qml

import bellhop

seen = []  # what Python was called with
raised = []  # what it raised
outcomes = []  # what each call of a program came to


class Boom(Exception):
    """What callbacks of programs raise."""


class Printed(io.TextIOBase):
    """Notes what is printed among the calls."""

    def write(self, text):
        if text.strip():
            seen.append(("print", tuple(text.split())))
        return len(text)


def note(name, *values):
    seen.append((name, values))


def step(x):
    """Change a number, or each of an array, within what its dtype holds."""
    if jnp.issubdtype(x.dtype, np.complexfloating):
        return np.asarray(x * 1j, x.dtype)
    if jnp.issubdtype(x.dtype, np.floating):
        return np.asarray(np.cos(x.astype(float)), x.dtype)
    return np.asarray((x.astype(int) + 1) % 7, x.dtype)


def steps(name, tree):
    note(name, tree)
    return jax.tree.map(step, tree)


def into(name, context, out, tree):
    # JAX's own buffers are no arrays.
    places, given = (jax.tree.map(np.asarray, each) for each in (out, tree))
    note(name, jax.tree.map(np.array, given))
    # A tree of what the assignments return may be none: an observable has coefficients.
    for place, x in zip(*map(jax.tree.leaves, (places, given)), strict=True):
        place[...] = step(x)


def fuse(name, n, x):
    """Raise, above four, with views of the argument; change it else."""
    note(name, n, x.copy())
    if n > 4:
        raised.append(Boom(name, x[1:], x[::-1], np.asarray(memoryview(x))))
        raise raised[-1]
    return step(x) if name[0] == "p" else None


def fuse_into(name, context, out, n, x):
    out[...] = fuse(name, n, x)


def at_once(f, *calls):
    """Call a function from several threads."""
    results = [None] * len(calls)
    failures = {}

    def one(place):
        try:
            results[place] = f(*calls[place])
        except Exception as error:
            failures[place] = error

    threads = [threading.Thread(target=one, args=(place,)) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        # The exception of the first call, whichever thread was first.
        raise failures[min(failures)]
    return results


def by_keyword(f):
    """Return a function that passes the arguments of a program by name, the last one first."""
    return lambda x, n, v, a: f(x, a=a, v=v, n=n)


def within(mode, f):
    """Return a function that is called in a mode of PyTorch, which a program does not see."""

    def call_in_mode(*args):
        with mode:
            return f(*args)

    return call_in_mode


def saved(f):
    """Save a compiled function and load it; return the function where it cannot be saved."""
    if not hasattr(f, "save"):
        return f
    with tempfile.TemporaryDirectory() as folder:
        try:
            f.save(f"{folder}/f.bellhop")
        except (bellhop.CompileError, RuntimeError, TypeError, ValueError):
            # It calls local functions, or was never compiled.
            return f
        return bellhop.load(f"{folder}/f.bellhop", trust=True)


def call(f, *args, **how):
    """Call a function, and keep what came of it and what Python saw meanwhile."""
    seen.clear()
    try:
        with contextlib.redirect_stdout(Printed()):
            result = jax.block_until_ready(f(*args))
            jax.effects_barrier()
            bellhop.barrier_wait()
    except Exception as error:
        result = error
    outcomes.append((result, tuple(seen), how))
    print(repr(result), *seen, sep="\n    ")
    return args if isinstance(result, Exception) else result
