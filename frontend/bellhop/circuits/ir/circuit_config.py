"""Execution settings of a circuit, from its QNode and the ``qjit`` options."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from bellhop.base.finite_diff_step import finite_diff_step
from bellhop.base.source import definition_site, function_name
from bellhop.circuits.ir.diff_method import DiffMethod, read_options
from bellhop.errors import CompileError


@dataclass(frozen=True)
class Shots:
    """The shots of a circuit.

    Attributes:
        shot_vector: the number of shots of each entry of the shot vector; one entry for a single
            number of shots, empty without shots.
        is_vector: whether the user set a shot vector, which returns a tuple of results.
        ADVICE: remedy for missing shots, as the end of a sentence. Only QNodes have shots.
    """

    ADVICE: ClassVar[str] = "put @qml.set_shots(100) between @qjit and @qml.qnode"

    shot_vector: tuple[int, ...] = ()
    is_vector: bool = False

    @property
    def total(self) -> int:
        """The total number of shots; 0 without shots."""
        return sum(self.shot_vector)


@dataclass(frozen=True)
class CircuitConfig:
    """Execution settings of a circuit, from its QNode and the ``qjit`` options.

    ``front/read_config.py`` constructs it; packages below ``front`` do not access the QNode.

    Attributes:
        function: the user's quantum function, whose name and line appear in errors and drawings.
        where: the QNode and its line, for errors.
        shots: the shots.
        mcm_method: PennyLane's ``mcm_method`` for mid-circuit measurements; None lets Bellhop
            choose.
        postselect_mode: PennyLane's ``postselect_mode``, for shots whose postselection fails.
        diff_method: the derivative method, a ``DiffMethod``; the user's name if Bellhop does not
            know the method.
        gradient_kwargs: the user's options of the derivative method.
        transforms: the QNode's ``BoundTransform`` objects, in order.
        passes: the names of the Bellhop passes over the gates, in order, such as
            ``"merge-rotations"`` and ``"pauli-twirling"``.
        engine: whether Bellhop's engine may run the circuit.
        precision: ``"single"`` or ``"double"`` amplitudes; None if the device and
            ``jax_enable_x64`` decide.
        amplitude_bits: 32 or 64, the bits of the real part of an amplitude.
        pennylane_diff_method: the QNode's own ``diff_method``, a name or a gradient transform, for
            devices that PennyLane differentiates.
        execute_kwargs: the QNode's ``execute_kwargs``, for devices that PennyLane executes.
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
        """Whether shots whose postselection fails are dropped instead of drawn again."""
        is_dropping = self.postselect_mode in ("hw-like", "pad-invalid-samples")
        return is_dropping and bool(self.shots.total)

    def read_diff_options(self) -> dict[str, Any]:
        """Validate ``gradient_kwargs``; return the options, with defaults.

        An option that has no effect is left out, and the user is warned. For a method that Bellhop
        does not know, all options are kept.

        Returns:
            the options by name. If present, ``h`` (the step of finite differences) is a number, and
            ``shifts`` is None or a tuple of tuples of floats.

        Raises:
            CompileError: for an unknown or unsupported option, and for a ``sampler_rng`` that is
                not an integer or None.
        """
        method, where = self.diff_method, self.where
        options = read_options(self.gradient_kwargs, method, where)
        if "h" in options and options["h"] is None:
            step = finite_diff_step(f"float{self.amplitude_bits}")
            # PennyLane's default of SPSA, in double precision.
            options["h"] = max(1e-5, step) if method == DiffMethod.SPSA else step
        if options.get("shifts") is not None:
            options["shifts"] = tuple(
                tuple(map(float, np.ravel(each))) for each in options["shifts"]
            )
        seed = options.get("sampler_rng")
        if not isinstance(seed, int | None):
            raise CompileError(
                f"{where}: the option sampler_rng of gradient_kwargs is a {type(seed).__name__}, "
                "expected an integer or None. Pass an integer, from which each run seeds its "
                "random generator."
            )
        return options
