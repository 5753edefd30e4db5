"""Draw the README's program, the timeline of its runs, and the page on noise: doc/pictures/.

Run as `python doc/draw_pictures.py`.
"""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib as mpl
import matplotlib.pyplot as plt

mpl.use("Agg")

import bellhop  # noqa: E402

DOC = Path(__file__).resolve().parent


def main() -> None:
    """Write both pictures."""
    mpl.rcParams |= {"svg.hashsalt": "bellhop", "svg.fonttype": "none"}
    examples = re.findall(r"```python\n(.*?)```", (DOC.parent / "README.md").read_text(), re.S)
    (example,) = [example for example in examples if "def energy" in example]
    path = DOC.parent / "README.md"
    program: dict[str, object] = {}
    exec(compile(example, path, "exec"), program)  # noqa: S102
    energy = program["energy"]
    figure, _ = bellhop.draw_graph(energy)(1.5)
    _save(figure, "program")

    @bellhop.qjit
    def descent(x):
        @bellhop.for_loop(0, 20, 1)
        def step(_, x):
            return x - 0.1 * energy(x)[1]

        return step(x)

    descent(jnp.asarray(1.5))
    with bellhop.profile() as profile:
        descent(jnp.asarray(1.5))
    _save(profile.plot().figure, "timeline")
    _save(_noise(), "noise")


def _noise():
    """Return expectation values by the strength of the noise, of the program in how-to/noise.md."""
    page = (DOC / "how-to" / "noise.md").read_text()
    cells = re.findall(r"```{code-cell}\n(.*?)```", page, re.S)
    program: dict[str, object] = {}
    for cell in cells:
        exec(compile(cell, "how-to/noise.md", "exec"), program)  # noqa: S102
    strengths = jnp.linspace(0, 0.1, 40)
    plain, mitigated = bellhop.qjit(jax.vmap(program["both"]))(strengths)
    figure, axes = plt.subplots(figsize=(6, 3.5))
    axes.axhline(plain[0], color="0.6", linestyle=":", label="no noise")
    axes.plot(strengths, mitigated, color="tab:blue", label="extrapolated from 1, 3 and 5 times")
    axes.plot(strengths, plain, color="tab:orange", label="with noise")
    axes.set(xlabel="strength of the noise behind each gate", ylabel="expectation value of Z")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _save(figure, name):
    figure.savefig(DOC / "pictures" / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight")


if __name__ == "__main__":
    main()
