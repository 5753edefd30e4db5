"""The adjoint method as a derivative of JAX's: of what takes a state and tables of matrices.

Backwards, the state before a matrix is the transposed matrix by the state behind it (Jones and
Gacon, arXiv:2009.02823), so none is kept for its derivative but the last one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.core import ShapedArray

from bellhop.base.types import Operand
from bellhop.callbacks.linear_map import LinearMap


class AdjointMethod(ABC):
    """A sequence of matrices, and what is computed of it forwards and backwards."""

    def applied(self, state: Operand, tables: Sequence[Any]) -> Any:
        """Return a state after all matrices, differentiated as JAX does, state by state.

        Args:
            state: of parts and entries.
            tables: arrays of the matrices.
        """
        return self._on_each(self._applied, 1, 1)(state, *tables)

    def applied_by_adjoint(self, state: Operand, tables: Sequence[Any]) -> Any:
        """Return a state after matrices that are orthogonal, differentiated by the adjoint method.

        Args:
            state: of parts and entries.
            tables: arrays of the matrices.
        """
        run = jax.custom_jvp(lambda state, *tables: self.applied(state, tables))

        def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
            state, *tables = primals
            after = run(*primals)
            aval = ShapedArray(state.shape, state.dtype)
            saved = [state, after, *tables]
            linear = LinearMap(self._pullback, self._pushforward, len(saved), (aval,))
            return after, linear(saved, list(tangents))[0]

        run.defjvp(rule)
        return run(state, *tables)

    def _pushforward(self, saved: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """Return the tangent of the state at the end."""
        state, _, *tables = saved
        tangent, *table_tangents = tangents
        run = self._on_each(self._tangent, 2, 1)
        return [run(state, tangent, *tables, *table_tangents)]

    def _pullback(self, saved: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the state at the beginning, and of the tables."""
        _, state, *tables = saved
        return list(
            self._on_each(self._cotangents, 2, 1 + len(tables))(state, *cotangents, *tables)
        )

    def _on_each(self, function: Callable[..., Any], n_states: int, n_results: int) -> Any:
        """Return a function of states and tables, as each device runs it with its part."""
        del n_states, n_results
        return function

    @abstractmethod
    def _applied(self, state: Operand, *tables: Any) -> Any:
        """Return the state behind all matrices."""

    @abstractmethod
    def _tangent(self, state: Operand, tangent: Operand, *tables: Any) -> Any:
        """Return the tangent of that.

        Args:
            state: before all matrices.
            tangent: that of it.
            tables: arrays of the matrices, and then of their tangents.
        """

    @abstractmethod
    def _cotangents(self, state: Operand, cotangent: Operand, *tables: Any) -> tuple[Any, ...]:
        """Return the cotangents of the state before all matrices, and of the tables.

        Args:
            state: behind all matrices.
            cotangent: that of it.
            tables: arrays of the matrices.
        """
