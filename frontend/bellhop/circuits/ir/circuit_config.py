"""How a circuit is to be run: what its QNode and the options of ``qjit`` ask for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bellhop.base.finite_diff_step import finite_diff_step
from bellhop.base.source import definition_site, function_name
from bellhop.circuits.ir.diff_method import SPSA, read_options
from bellhop.errors import CompileError


@dataclass(frozen=True)
class Shots:
    """How many shots a circuit has.

    Attributes:
        copies: the number of shots of each copy of the results; empty without shots.
        is_vector: whether the user asked for several copies of the results.
    """

    copies: tuple[int, ...] = ()
    is_vector: bool = False

    @property
    def total(self) -> int:
        """The number of all shots; 0 without shots."""
        return sum(self.copies)


@dataclass(frozen=True)
class CircuitConfig:
    """How a circuit is to be run, read once from its QNode and from the options of ``qjit``.

    ``front/read_config.py`` makes it; no package below ``front`` sees a QNode.

    Attributes:
        function: the user's quantum function, whose name and line stand in errors and pictures.
        where: the QNode and its line, for errors.
        shots: the numbers of shots.
        mcm_method: PennyLane's name of the treatment of mid-circuit outcomes; None leaves the
            choice to Bellhop.
        postselect_mode: PennyLane's name of what happens to shots whose postselection fails.
        diff_method: the derivative method by its name in ``ir/diff_method.py``; a method that
            Bellhop does not know keeps the user's name.
        gradient_kwargs: the options of the derivative method, as the user gave them.
        transforms: PennyLane's bound transforms of the QNode, in order.
        passes: the names of the passes that simplify the gates, in order.
        engine: whether Bellhop's engine may run the circuit.
        precision: ``"single"`` or ``"double"`` for the amplitudes; None follows the device and
            JAX's 64-bit types.
        amplitude_bits: the number of bits of a real number in the states of the QNode's device.
        pennylane_diff_method: the derivative method as the QNode has it, a name or a gradient
            transform, for devices that PennyLane differentiates.
        execute_kwargs: PennyLane's options of execution, for devices that PennyLane executes.
    """

    function: Callable[..., Any] = field(compare=False)
    where: str
    shots: Shots
    mcm_method: str | None
    postselect_mode: str | None
    diff_method: str
    gradient_kwargs: Mapping[str, Any] = field(compare=False)
    transforms: Sequence[Any] = field(compare=False)
    passes: tuple[str, ...]
    engine: bool
    precision: str | None
    amplitude_bits: int
    pennylane_diff_method: Any = field(compare=False)
    execute_kwargs: Mapping[str, Any] = field(compare=False)

    @property
    def name(self) -> str:
        """The name of the quantum function."""
        return function_name(self.function)

    @property
    def site(self) -> str:
        """The ``file:line`` of the quantum function."""
        return definition_site(self.function)

    @property
    def drops_shots(self) -> bool:
        """Whether shots whose postselection fails are dropped, and not drawn again."""
        is_dropping = self.postselect_mode in ("hw-like", "pad-invalid-samples")
        return is_dropping and bool(self.shots.total)

    def read_diff_options(self) -> dict[str, Any]:
        """Return the options of the derivative method, with defaults for those left out.

        Raises:
            CompileError: for options that are not supported, or that PennyLane does not have.
        """
        method, where = self.diff_method, self.where
        options = read_options(self.gradient_kwargs, method, where)
        if "h" in options and options["h"] is None:
            step = finite_diff_step(f"float{self.amplitude_bits}")
            # PennyLane's default of SPSA, in double precision.
            options["h"] = max(1e-5, step) if method == SPSA else step
        if options.get("shifts") is not None:
            options["shifts"] = tuple(
                tuple(map(float, np.ravel(each))) for each in options["shifts"]
            )
        seed = options.get("sampler_rng")
        if not isinstance(seed, int | None):
            raise CompileError(
                f"{where}: the sampler_rng of its gradient_kwargs is a {type(seed).__name__}, "
                "which each run would go on with. Give a seed, an integer, or none."
            )
        return options
