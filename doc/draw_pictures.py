"""Draw the README's program and the timeline of its runs: doc/pictures/program.svg, timeline.svg.

Run as `python doc/draw_pictures.py`.
"""

import re
from pathlib import Path

import jax.numpy as jnp
import matplotlib as mpl

mpl.use("Agg")

import bellhop  # noqa: E402

DOC = Path(__file__).resolve().parent


def main() -> None:
    """Write both pictures."""
    mpl.rcParams |= {"svg.hashsalt": "bellhop", "svg.fonttype": "none"}
    (example,) = re.findall(r"```python\n(.*?)```", (DOC.parent / "README.md").read_text(), re.S)
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


def _save(figure, name):
    figure.savefig(DOC / "pictures" / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight")


if __name__ == "__main__":
    main()
