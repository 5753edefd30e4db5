"""Forward mode of a callback with ``fwd`` and ``bwd`` says what there is instead.

Replaced: the rules of ``custom_lin``, the primitive that is left of a ``jax.custom_vjp`` function
in forward mode; its error says no more than that it cannot.
Versions: 0.10 and 0.11.
Upstream: a linear primitive of our own in place of ``jax.custom_vjp``.
Put in: when a callback with both rules is first traced.
Test: ``test_derivative_errors.py``.
"""

from collections.abc import Callable
from typing import Any

from jax._src.interpreters import ad  # noqa: TID251
from jax.interpreters import batching, mlir

from bellhop._jax.patches import original, patch


def explain_forward_mode(backward: Callable[..., Any], make_error: Callable[[], Exception]) -> None:
    """Let forward mode through the ``jax.custom_vjp`` function of a backward rule say more."""
    _put_in()
    backward.forward_mode_error = make_error  # type: ignore[attr-defined]


@patch("the rules of custom_lin", "errors of callbacks in forward mode say what to do")
def _put_in() -> None:
    linear_part = original(ad, "custom_lin_p")
    refuse_by_jax = original(ad, "raise_custom_vjp_error_on_jvp")

    def refuse(*args: Any, bwd: Any, **params: Any) -> Any:
        make_error = getattr(getattr(bwd, "f", None), "forward_mode_error", None)
        if make_error is not None:
            raise make_error()
        refuse_by_jax(*args, bwd=bwd, **params)

    linear_part.def_impl(refuse)
    batching.primitive_batchers[linear_part] = refuse
    mlir.register_lowering(linear_part, refuse, cacheable=False)
