"""Rewriting of assignments to array elements and to several targets.

    x[i, j] = y          x = ag__.set_element(x, ((i, j),), y)
    x[i][j] += y         x = ag__.update_element(x, (i, j), "add", y)
    x = y = z            value = z; x = value; y = value
    x[i], y = z          item, y = z; x = ag__.set_element(x, (i,), item)

An assignment to a name of an enclosing function or a global would create a local variable, so such
containers are changed in place, and arrays of the program raise an error.
"""

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from malt.core import converter
from malt.pyct import templates

from bellhop.autograph.variables import is_traced
from bellhop.base.source import user_site
from bellhop.errors import AutoGraphError

_UPDATES: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "add": ("add", operator.add),
    "sub": ("subtract", operator.sub),
    "mult": ("multiply", operator.mul),
    "div": ("divide", operator.truediv),
    "pow": ("power", operator.pow),
}


def set_element(target: object, path: Sequence[Any], value: object) -> Any:
    """Execute ``x[i][j] = value``, where ``x`` may be a JAX array.

    Rewritten code calls it as ``x = ag__.set_element(x, (i, j), value)``.

    Args:
        target: the container or array ``x``; Python containers are changed in place.
        path: the indices ``(i, j)``, outermost first.
        value: the assigned value.

    Returns:
        the container, or a new array that replaces the array ``x``.
    """
    return _change_element(target, path, lambda container, key: _set_item(container, key, value))


def update_element(target: object, path: Sequence[Any], update: str, value: object) -> Any:
    """Execute ``x[i][j] += value`` or another update, where ``x`` may be a JAX array.

    Rewritten code calls it as ``x = ag__.update_element(x, (i, j), "add", value)``.

    Args:
        target: the container or array ``x``; Python containers are changed in place.
        path: the indices ``(i, j)``, outermost first.
        update: name of the operator's class in ``ast``, in lower case, a key of ``_UPDATES``.
        value: the operand.

    Returns:
        the container, or a new array that replaces the array ``x``.
    """
    return _change_element(
        target, path, lambda container, key: _update_item(container, key, update, value)
    )


def check_same_object(name: str, before: Any, after: Any) -> None:
    """Raise an error if an assignment ``x[i] = y`` created a new array for an outer variable ``x``.

    Rewritten code calls it for a variable that it cannot assign: a global variable, or a variable
    of an enclosing function.

    Args:
        name: the name of the variable.
        before: value of the variable before the assignment.
        after: the value that would replace it: the same container, or a new array.

    Raises:
        AutoGraphError: if `after` is another object, as for arrays of the program.
    """
    if after is not before:
        raise AutoGraphError(
            f"the assignment to an element of '{name}' at {user_site()} creates a new array, and "
            f"'{name}' is a global variable or belongs to an enclosing function, and cannot be "
            "replaced from here. Pass the array as an argument, and return it."
        )


def _change_element(target: Any, path: Sequence[Any], change: Callable[[Any, Any], Any]) -> Any:
    """Apply a change to an element of nested containers or arrays.

    Args:
        target: the outermost container or array.
        path: indices of the element, outermost first; at least one.
        change: takes the innermost container and the last index; returns the container or its
            replacement.

    Returns:
        `target` if it was changed in place, or the array that replaces it.
    """
    key, *rest = path
    if not rest:
        return change(target, key)
    element = target[key]
    changed = _change_element(element, rest, change)
    return target if changed is element else _set_item(target, key, changed)


def _set_item(target: Any, key: Any, value: Any) -> Any:
    """Execute ``target[key] = value``: in place, or in a copy if the result is a JAX array.

    The copy is made for a JAX array, and for a NumPy array if the key or the value is traced.

    Returns:
        `target`, changed in place, or the new JAX array.
    """
    if _is_program_array(target, key, value):
        return jnp.asarray(target).at[key].set(value)
    target[key] = value
    return target


def _update_item(target: Any, key: Any, update: str, value: Any) -> Any:
    """Execute ``target[key] += value`` or another update: in place, or in a copy of an array.

    The copy is made for a JAX array, and for a NumPy array if the key or the value is traced.

    Args:
        target: the container or array.
        key: the index of the element.
        update: name of the operator, such as ``"add"`` for ``+=``, a key of ``_UPDATES``.
        value: right-hand side of the assignment.

    Returns:
        `target`, changed in place, or the new JAX array.
    """
    in_place, python = _UPDATES[update]
    if not _is_program_array(target, key, value):
        target[key] = python(target[key], value)
        return target
    element = jnp.asarray(target).at[key]
    return element.add(-value) if update == "sub" else getattr(element, in_place)(value)


def _is_program_array(target: object, key: object, value: object) -> bool:
    """Return whether ``target[key] = value`` must create a new JAX array.

    True for a JAX array, and for a NumPy array if the key or the value is traced.
    """
    if isinstance(target, jax.Array):
        return True
    return isinstance(target, np.ndarray) and any(map(is_traced, jax.tree.leaves((key, value))))


def transform(node: Any, context: Any) -> Any:
    """Rewrite assignments to elements, so that they also work for JAX arrays.

    ``x[i] = y`` becomes ``x = ag__.set_element(x, (i,), y)``. This is a step of AutoGraph's
    conversion of a function: it changes the syntax tree `node`, and returns it.
    """
    return _Assignments(context).visit(node)


class _Assignments(converter.Base):  # type: ignore[misc]
    """Syntax tree visitor that rewrites assignments to elements of arrays.

    ``x[i] = v`` and ``x[i] += v`` become calls of ``set_element`` and ``update_element``, whose
    result is stored in ``x``, since arrays of JAX are immutable. Before that, ``x = y = v`` is
    split into two assignments, and in ``a, x[i] = v`` a temporary name replaces the element
    ``x[i]``. There is a visitor for each converted function.

    Args:
        context: AutoGraph's context of the converted function.
    """

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self._owned: list[set[str]] = []

    def visit_FunctionDef(self, node: Any) -> Any:
        """Rewrite the body of a function, which may be nested in another function.

        While the body is rewritten, the names that the function may assign are the last entry of
        ``self._owned``.
        """
        self._owned.append(_owned_names(node))
        node = self.generic_visit(node)
        self._owned.pop()
        return node

    def visit_Assign(self, node: Any) -> Any:
        """Rewrite an assignment to elements or to several targets, ``x = y = z``."""
        node = self.generic_visit(node)
        if len(node.targets) == 1:
            return self._assign(node.targets[0], node.value) or node
        symbol = self.ctx.namer.new_symbol("value", ())
        statements = templates.replace("symbol = value", symbol=symbol, value=node.value)
        for target in node.targets:
            value = ast.Name(id=symbol, ctx=ast.Load())
            statements += self._assign(target, value) or [
                ast.Assign(targets=[target], value=value, type_comment=None)
            ]
        return statements

    def visit_AugAssign(self, node: Any) -> Any:
        """Rewrite ``x[i] += y``, and statements with ``-=``, ``*=``, ``/=`` and ``**=``.

        All other statements are kept.
        """
        node = self.generic_visit(node)
        update = type(node.op).__name__.lower()
        if update not in _UPDATES or not isinstance(node.target, ast.Subscript):
            return node
        base, path = _split_path(node.target)
        call = templates.replace_as_expression(
            f"ag__.update_element(base, path, '{update}', value)",
            base=base,
            path=path,
            value=node.value,
        )
        return self._store(base, call)

    def _assign(self, target: object, value: object) -> Any:
        """Build the statements for an assignment of an expression to one target.

        Returns:
            the list of statements; None to keep the assignment, if the target neither is nor
            contains an element.
        """
        if isinstance(target, ast.Tuple | ast.List):
            return self._assign_to_several(target, value)
        if not isinstance(target, ast.Subscript):
            return None
        base, path = _split_path(target)
        call = templates.replace_as_expression(
            "ag__.set_element(base, path, value)", base=base, path=path, value=value
        )
        return self._store(base, call)

    def _assign_to_several(self, target: object, value: Any) -> Any:
        """Build the statements for an unpacking assignment, ``x[i], y = z``.

        They are ``item, y = z`` and an assignment of ``item`` to ``x[i]``.

        Args:
            target: a tuple or list of targets.
            value: expression of the value.

        Returns:
            the list of statements; None to keep the assignment, if no target is an element.
        """
        items: list[tuple[Any, Any]] = []

        def replace_element(part: Any) -> Any:
            """Replace each element in an unpacking target, such as ``x[i]``, by a new name.

            The element and its new name are appended to `items`, to be assigned afterwards.

            Args:
                part: the target, or a part of it: a tuple, a list, ``*x``, an element or a name.
            """
            if isinstance(part, ast.Subscript):
                name = self.ctx.namer.new_symbol("item", ())
                items.append((part, ast.Name(id=name, ctx=ast.Load())))
                return ast.Name(id=name, ctx=ast.Store())
            if isinstance(part, ast.Tuple | ast.List):
                return type(part)(elts=list(map(replace_element, part.elts)), ctx=part.ctx)
            if isinstance(part, ast.Starred):
                return ast.Starred(value=replace_element(part.value), ctx=part.ctx)
            return part

        targets = [replace_element(target)]
        if not items:
            return None
        statements = [ast.Assign(targets=targets, value=value, type_comment=None)]
        for part, item in items:
            statements += self._assign(part, item)
        return statements

    def _store(self, base: Any, changed: Any) -> Any:
        """Build the statement that assigns a changed container or array to its variable.

        For a variable of an enclosing function or a global variable, the statement checks instead
        that the container was changed in place. For other expressions, such as calls, it only
        evaluates `changed`.

        Args:
            base: expression of the container, such as a variable's name.
            changed: expression that changes the container and returns it, or returns a new array.
        """
        if isinstance(base, ast.Name) and base.id not in self._owned[-1]:
            name = ast.Constant(value=base.id, kind=None)
            return templates.replace(
                "ag__.check_same_object(name, base, changed)", name=name, base=base, changed=changed
            )
        if isinstance(base, ast.Name | ast.Attribute):
            return templates.replace("base = changed", base=base, changed=changed)
        return templates.replace("changed", changed=changed)


def _split_path(target: object) -> tuple[Any, Any]:
    """Split the expression ``x[i][j]`` into ``x`` and the expression ``(i, j)``."""
    keys: list[Any] = []
    while isinstance(target, ast.Subscript):
        keys.insert(0, _index_expression(target.slice))
        target = target.value
    return target, ast.Tuple(elts=keys, ctx=ast.Load())


def _index_expression(index: Any) -> Any:
    """Convert an index to an expression that is valid outside of brackets.

    ``1:n`` becomes ``slice(1, n, None)``.
    """
    if isinstance(index, ast.Tuple):
        return ast.Tuple(elts=[_index_expression(part) for part in index.elts], ctx=ast.Load())
    if not isinstance(index, ast.Slice):
        return index
    none = ast.Constant(value=None, kind=None)
    bounds = [none if bound is None else bound for bound in (index.lower, index.upper, index.step)]
    return ast.Call(func=ast.Name(id="slice", ctx=ast.Load()), args=bounds, keywords=[])


def _owned_names(function: Any) -> set[str]:
    """Collect the names that a function definition assigns.

    These are its arguments, the names that its body assigns or declares as global or nonlocal, and
    the names of nested functions and classes, whose bodies are not searched. Names that ``import``
    binds are not included.

    Args:
        function: the syntax tree of the function definition.
    """
    names: set[str] = set()
    arguments = function.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        names.add(_argument_name(argument))
    names.update(_argument_name(a) for a in (arguments.vararg, arguments.kwarg) if a is not None)
    todo = list(function.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.Global | ast.Nonlocal):
            names.update(node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        todo += ast.iter_child_nodes(node)
    return names


def _argument_name(argument: Any) -> str:
    """Return the name of an argument in a syntax tree of Python or of malt."""
    return str(argument.id if isinstance(argument, ast.Name) else argument.arg)
