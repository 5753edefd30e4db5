"""`mitigate_with_zne`: zero-noise extrapolation of circuits."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.arguments.accepted_arguments import check_parameters
from bellhop.base.option_checks import check_mapping
from bellhop.base.public_function import hide_internal_frames, public_function
from bellhop.base.source import name_with_site
from bellhop.compiled.qjit import QJIT
from bellhop.jaxprs.constant_eval import evaluate_constant
from bellhop.tracing.state import override_trace_state
from bellhop.transformations.inline_trace import trace_inline

# PennyLane's "local-random" folds a random subset of the gates for factors between odd integers;
# for odd factors it folds all gates.
_FOLDINGS = {"global": "global", "local-all": "local-all", "local-random": "local-all"}


@public_function
def mitigate_with_zne(
    fn: Callable[..., Any] | None = None,
    *,
    scale_factors: Sequence[int],
    extrapolate: Callable[..., Any] | None = None,
    extrapolate_kwargs: Mapping[str, Any] | None = None,
    folding: str = "global",
) -> Any:
    """Mitigate errors of noisy devices by extrapolation to zero noise.

    Each QNode that the function calls runs once for each scale factor ``s``, with each gate applied
    ``s`` times: the circuit ``U``, or each gate, becomes ``U U† U ...`` with ``s`` factors
    (`folding`). Without noise this changes nothing, with noise it multiplies the noise by ``s``.
    The results are then extrapolated to ``s = 0``.

    Args:
        fn: a QNode, a qjit function, or any function that calls QNodes.
        scale_factors: two or more different positive odd integers.
        extrapolate: takes scale factors and values, and returns the value at zero; traced.  None
            for ``qml.noise.richardson_extrapolate``, a polynomial through all values.
        extrapolate_kwargs: keyword arguments for ``extrapolate``.
        folding: ``"global"``, the circuit is folded as a whole, or ``"local-all"``, each gate by
            itself. ``"local-random"`` equals ``"local-all"``, as all scale factors are odd.

    Returns:
        a function with the arguments of ``fn``, and a qjit function if ``fn`` is one; without
        ``fn``, a decorator.

    Raises:
        TypeError: if ``fn`` is not callable.
        ValueError: if ``scale_factors`` or ``folding`` is invalid.
        TypeError: when traced, if ``extrapolate`` does not take scale factors and values.
        CompileError: when traced, for global folding of a circuit with mid-circuit measurements.

    Example:
        >>> import bellhop, pennylane as qml
        >>> @qml.qnode(qml.device("lightning.qubit", wires=1))
        ... def circuit(x):
        ...     qml.RX(x, wires=0)
        ...     return qml.expval(qml.Z(0))
        >>> mitigated = bellhop.mitigate_with_zne(circuit, scale_factors=[1, 3, 5])
        >>> print(f"{bellhop.qjit(mitigated)(0.0):.3f}")
        1.000

    Temme et al., Phys. Rev. Lett. 119, 180509 (2017); Li and Benjamin, Phys. Rev. X 7, 021050
    (2017).  Same interface as Catalyst's ``mitigate_with_zne``.
    """
    if fn is None:
        return functools.partial(
            mitigate_with_zne,
            scale_factors=scale_factors,
            extrapolate=extrapolate,
            extrapolate_kwargs=extrapolate_kwargs,
            folding=folding,
        )
    if not callable(fn):
        raise TypeError(
            f"mitigate_with_zne takes a function, got {fn!r} of type {type(fn).__name__}."
        )
    scales = _check_scale_factors(scale_factors)
    if extrapolate_kwargs is not None:
        check_mapping("mitigate_with_zne", "extrapolate_kwargs", extrapolate_kwargs, "{'order': 2}")
    if folding not in _FOLDINGS:
        raise ValueError(
            f"mitigate_with_zne: folding is {folding!r}, expected one of {', '.join(_FOLDINGS)}."
        )
    if isinstance(fn, QJIT):
        mitigated = mitigate_with_zne(
            fn.user_function,
            scale_factors=scales,
            extrapolate=extrapolate,
            extrapolate_kwargs=extrapolate_kwargs,
            folding=folding,
        )
        return QJIT(mitigated, fn.compile_options)

    @functools.wraps(fn)
    @hide_internal_frames
    def run(*args: Any, **kwargs: Any) -> Any:
        """Call `fn`; extrapolate the results of each QNode that it calls to zero noise.

        This is the function that `mitigate_with_zne` returns; it has the arguments of `fn`.

        Raises:
            TypeError: if ``extrapolate`` does not take scale factors and values.
        """
        # Imported here, as programs without circuits do not import PennyLane.
        import pennylane as qml

        chosen = extrapolate or qml.noise.richardson_extrapolate
        keywords = extrapolate_kwargs or {}
        passed = ", ".join(["the scale factors, and the values", *(f"{key}=" for key in keywords)])
        check_parameters(
            f"mitigate_with_zne of {name_with_site(fn)}",
            f"extrapolate, {name_with_site(chosen)},",
            chosen,
            2,
            passed,
            keywords,
        )
        at_zero = functools.partial(chosen, **keywords)
        with override_trace_state(mitigation=_Mitigation(scales, at_zero, _FOLDINGS[folding])):
            return trace_inline(fn)(*args, **kwargs)

    return run


def _check_scale_factors(scale_factors: Any) -> tuple[int, ...]:
    """Check the option ``scale_factors``; return it as a tuple of integers.

    Args:
        scale_factors: the user's value, of any type; floats such as 3.0 are accepted, and so is a
            ``jax.numpy`` array of constants, which is traced inside a program.

    Raises:
        ValueError: if they are not two or more different odd positive integers, known when the
            program is traced.
    """
    if isinstance(scale_factors, jax.core.Tracer):
        constant = evaluate_constant(scale_factors)
        scale_factors = scale_factors if constant is None else constant
    try:
        scales = tuple(int(scale) for scale in scale_factors)
        is_right = all(s == g for s, g in zip(scales, scale_factors, strict=True))
    except Exception as error:
        raise ValueError(
            "mitigate_with_zne: scale_factors must be a sequence of numbers that are known when "
            f"the program is traced; got {scale_factors!r}. Pass a list, such as [1, 3, 5]."
        ) from error
    if not is_right or len(set(scales)) < 2 or any(scale < 1 or scale % 2 == 0 for scale in scales):
        raise ValueError(
            "mitigate_with_zne: scale_factors must be two or more different odd integers above "
            f"zero; got {list(scale_factors)}."
        )
    return scales


@dataclass(frozen=True)
class _Mitigation:
    """Settings of zero-noise extrapolation for the QNodes of a mitigated function.

    While the function is traced, the trace state holds this object, and each QNode call is recorded
    by `run`.

    Attributes:
        scale_factors: odd positive integers by which the noise is multiplied.
        extrapolate: takes the scale factors and the values for them, both of shape [n_factors];
            returns the value at zero noise, one number.
        folding: ``"global"``, fold the circuit as a whole, or ``"local-all"``, fold each gate.
    """

    scale_factors: tuple[int, ...]
    extrapolate: Callable[[Any, Any], Any]
    folding: str

    def run(self, circuit: Callable[[], Any]) -> Any:
        """Record a circuit once for each scale factor; return its extrapolated results.

        Args:
            circuit: records the circuit in the traced program and returns its results, a pytree.

        Returns:
            a pytree of the same structure, with each leaf extrapolated to zero noise.
        """
        from bellhop.circuits.passes.operation_transforms import Folding

        results = []
        for scale in self.scale_factors:
            with override_trace_state(mitigation=None), Folding.fold_circuits(scale, self.folding):
                results.append(circuit())
        return jax.tree.map(self._extrapolate_to_zero, *results)

    def _extrapolate_to_zero(self, *values: Any) -> Any:
        """Extrapolate one leaf of a circuit's results to zero noise, element by element.

        Args:
            *values: the leaf for each scale factor, in the order of `scale_factors`; arrays of
                equal shapes.
        """
        scales = np.asarray(self.scale_factors, float)
        table = jnp.stack(values)
        columns = jnp.reshape(table, (len(values), -1)).T
        extrapolated = jnp.stack([_to_scalar(self.extrapolate(scales, c)) for c in columns])
        return jnp.reshape(extrapolated, table.shape[1:])


def _to_scalar(extrapolated: Any) -> jax.Array:
    """Return the result of the user's ``extrapolate`` as an array of shape ``()``.

    Raises:
        TypeError: if ``extrapolate`` did not return exactly one number.
    """
    if jax.tree.structure(extrapolated).num_nodes != 1 or jnp.size(extrapolated) != 1:
        raise TypeError(
            "mitigate_with_zne: extrapolate must return one number, the value at a scale factor of "
            f"zero; it returned {extrapolated}."
        )
    return jnp.reshape(extrapolated, ())
