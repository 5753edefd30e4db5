"""How a program is called: with what, how often, transformed how, from how many threads."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from tests.needs import PYTORCH

from .scope import Traits

Draw = Callable[[Any], Any]
LENGTHS = (2, 0, 1, 3)
SHAPES = ((), (2,), (0,), (2, 3), (2, 0))
DTYPES = (
    "float64", "int64", "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "uint64",
    "float16", "bfloat16", "float32", "complex64", "complex128", "int4", "uint4", "float8_e4m3fn",
)  # fmt: skip

# Of what the program returns, the first is a float; `g` is that one alone, of its two floats.  A
# number of Python's would stay one in a program of ours that calls another.
FIRST = "g = lambda x, v: f(x, jnp.int64({n}), v, {a})[0]"
DERIVATIVES = (
    "jax.value_and_grad(f, has_aux=True)",
    "jax.grad(g)",
    "jax.value_and_grad(g, argnums=(0, 1))",
    "bellhop.value_and_grad(g)",
    "bellhop.grad(g, argnums=1)",
    "bellhop.jacobian(g, argnums=[0, 1])",
    "lambda x, v: jax.jvp(g, (x, v), (1.0, v))",
    "lambda x, v: bellhop.jvp(g, (x, v), (1.0, v), argnums=(0, 1))",
    "lambda x, v: jax.vjp(g, x, v)[1](1.0)",
    "lambda x, v: bellhop.vjp(g, (x, v), (1.0,), argnums=(0, 1))",
    "jax.jacfwd(g)",
    "jax.jacrev(g, argnums=1)",
    "jax.hessian(g)",
)
DERIVATIVES_OF_BATCHES = (
    "jax.vmap(jax.grad(g), in_axes=(0, None))",
    "jax.grad(lambda x, v: jnp.sum(jax.vmap(g, in_axes=(0, None))(x, v)))",
)
MAPS = (
    "jax.vmap(f, in_axes=(0, None, None, None))",
    "bellhop.vmap(f, in_axes=(0, None, None, None))",
    "jax.vmap(f, in_axes=(0, 0, None, None))",
    "jax.vmap(f, in_axes=(None, 0, None, None))",
)

# Modes of PyTorch around a call.
MODES = (
    "no_grad()",
    "inference_mode()",
    "enable_grad()",
    "autocast('cpu', dtype=torch.bfloat16)",
    "device('cpu')",
)


def number(draw: Draw) -> str:
    return str(draw(st.sampled_from((0.3, 1.1, -0.4, 2.5))))


def integer(draw: Draw, most: int = 3) -> str:
    """Draw an argument that bounds loops and names wires; nine makes callbacks raise."""
    few = draw(st.integers(-1, most))
    return "9" if most > 2 and draw(st.integers(0, 7)) == 7 else str(few)


def vector(draw: Draw, length: int) -> str:
    return f"np.array({[round(0.4 + 0.3 * i, 2) for i in range(length)]}, float)"


def array(draw: Draw) -> str:
    shape, dtype = draw(st.sampled_from(SHAPES)), draw(st.sampled_from(DTYPES))
    return (
        f"(jnp.arange({shape[-1] if shape else 1}) * jnp.ones({shape}, int)).astype('{dtype}')"
        if shape
        else f"jnp.array(1, '{dtype}')"
    )


def arguments(draw: Draw) -> list[str]:
    length = draw(st.sampled_from(LENGTHS))
    return [number(draw), integer(draw), vector(draw, length), array(draw)]


def compiled(draw: Draw, text: str) -> tuple[str, str]:
    """Draw whether a transformation stands around a compiled function or in one.

    Returns:
        the function, and the option of ``call`` for it.
    """
    form = draw(st.sampled_from(("{}", "bellhop.qjit({})", "jax.jit({})")))
    return form.format(text), ", jit=True" * ("jax.jit" in form)


def in_mode(draw: Draw, function: str) -> str:
    """Draw whether a function is called in a mode of PyTorch."""
    # Seeds draw the same programs where there is no PyTorch.
    mode = draw(st.sampled_from((None,) * 6 + MODES))
    return function if mode is None or not PYTORCH.is_here else f"within(torch.{mode}, {function})"


def plain(draw: Draw, seeded: bool) -> list[str]:
    """Draw calls of the program itself."""
    lines: list[str] = []
    for _ in range(4):
        forms = ("call", "feed", "again", "threads", "collect", "keywords", "saved")
        form = draw(st.sampled_from(forms))
        args = arguments(draw)
        if form == "feed" and any(line.startswith("r = ") for line in lines):
            lines.append(f"r = call(f, r[0], {', '.join(args[1:])})")
        elif form == "threads":
            calls = [f"({', '.join(arguments(draw))})" for _ in range(3)]
            lines.append(f"call(at_once, f, {', '.join(calls)}, threads=True)")
        elif form == "collect":
            lines.append("gc.collect()")
        elif form in ("keywords", "saved"):
            # A loaded program has the types that it was compiled for.
            lines.append(f"r = call(f, {', '.join(args)})")
            function = "saved(f)" if form == "saved" else "f"
            lines.append(f"r = call(by_keyword({function}), {', '.join(args)})")
        else:
            lines.append(f"r = call({in_mode(draw, 'f')}, {', '.join(args)})")
            if form == "again":
                same = ", same=True" * seeded
                lines.append(f"r = call(f, {', '.join(args)}{same})")
        if draw(st.integers(0, 2)) == 0:
            break
    return lines


def derivatives(draw: Draw, forms: tuple[str, ...]) -> list[str]:
    """Draw transformations that differentiate."""
    _, n, v, a = arguments(draw)
    lines = [FIRST.format(n=n, a=a)]
    for _ in range(3):
        form = draw(st.sampled_from(forms))
        x = number(draw)
        if "in_axes" in form:
            x = f"np.array([{x}, 0.8])"
        args = f"{x}, {v}" if "(f" not in form else f"{x}, {n}, {v}, {a}"
        how = ", derivative=True"
        how += ", mapped=True" * ("vmap" in form or "jac" in form or "hess" in form)
        function, option = compiled(draw, form)
        function = in_mode(draw, function)
        lines += [f"call({function}, {args}{how}{option})"] * draw(st.sampled_from((1, 2)))
        if draw(st.integers(0, 2)) == 0:
            break
    return lines


def maps(draw: Draw) -> list[str]:
    """Draw batches."""
    _, n, v, a = arguments(draw)
    lines = []
    for _ in range(2):
        form = draw(st.sampled_from(MAPS))
        axes = form[form.index("in_axes=(") + 9 :]
        x = f"np.array([{number(draw)}, 0.8])" if axes[0] == "0" else number(draw)
        count = "np.array([1, 2])" if axes.split(", ")[1] == "0" else integer(draw)
        function, option = compiled(draw, form)
        lines.append(f"call({function}, {x}, {count}, {v}, {a}, mapped=True{option})")
        if draw(st.integers(0, 2)) == 0:
            break
    return lines


def calls(draw: Draw, traits: Traits, seeded: bool) -> list[str]:
    """Draw the calls of a program."""
    if traits.derivative:
        lines = derivatives(draw, DERIVATIVES + DERIVATIVES_OF_BATCHES * traits.mapped)
    else:
        lines = maps(draw) if traits.mapped else plain(draw, seeded)
    return ["import torch"] * any("torch." in line for line in lines) + lines
