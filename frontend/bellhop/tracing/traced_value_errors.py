"""Advice for errors of Python code that misuses the traced values of a program."""

import os

import jax

from bellhop._jax.private import is_traced_size_error
from bellhop.base.exception_attributes import find_hidden_exception
from bellhop.base.instructions import is_in_place_assignment
from bellhop.base.source import error_site, innermost_user_frame, is_in_users_project
from bellhop.tracing.library_calls import find_library_call
from bellhop.tracing.state import CONCRETIZATION_ERRORS

_JAX = os.path.dirname(jax.__file__) + os.sep

ADVICE_ON_LEAKS = (
    "Return the value from the function that computes it: the body of a loop returns its carried "
    "values, such as an array updated by x.at[i].set(value), and jax.lax.scan stacks the values "
    "that its body returns. Pass differentiated values to a function with custom derivatives as "
    "arguments."
)
_ADVICE_ON_ITEMS = (
    "Make the array a JAX array, such as a = jnp.zeros(3) or a = jnp.asarray(a), and write "
    "a = a.at[i].set(value) in place of a[i] = value."
)
# By type of the JAX error; subclasses precede their base class.
_ADVICE_ON_VALUES: dict[type[Exception], str] = {
    jax.errors.TracerBoolConversionError: (
        "Use bellhop.cond, qml.cond, jax.lax.cond or jnp.where in place of if, bellhop.while_loop "
        "in place of while, or qjit(autograph=True); &, | and ~ in place of and, or and not, also "
        "for mid-circuit outcomes; jnp.maximum in place of max, jnp.isin in place of in; "
        "see help(bellhop.cond)."
    ),
    jax.errors.TracerArrayConversionError: (
        "Use the function of jax.numpy in place of NumPy's or pennylane.numpy's, such as "
        "jnp.linalg.norm(x) and jnp.asarray(x), or of qml.math, or call NumPy when the program "
        "runs: see help(bellhop.pure_callback)."
    ),
    jax.errors.TracerIntegerConversionError: (
        "Use bellhop.for_loop in place of range, or qjit(autograph=True), and jnp.asarray(x)[i] to "
        "index a list or a NumPy array x; see help(bellhop.for_loop)."
    ),
    jax.errors.NonConcreteBooleanIndexError: (
        "Use jnp.where(mask, x, other) in place of x[mask], whose size depends on values."
    ),
    jax.errors.ConcretizationTypeError: (
        "Leave a number as it is in place of x.item(), use x.astype(float) in place of float(x), "
        "jnp.sin(x) in place of math.sin(x), or run Python when the program runs: see "
        "help(bellhop.pure_callback)."
    ),
}


def is_request_for_value(error: BaseException | None) -> bool:
    """Return whether an error means that Python code needs the value of a tracer.

    For example for ``if x > 0``, ``float(x)`` or ``range(n)``. False for None.
    """
    return isinstance(error, CONCRETIZATION_ERRORS) or (
        error is not None and is_traced_size_error(error)
    )


def advise_on_traced_value(error: Exception) -> str | None:
    """Return sentences for an error: which user line misuses a tracer, and the remedy.

    Args:
        error: an exception of tracing, with its traceback.

    Returns:
        the sentences, which begin with ``at file:line,``; None for errors of other kinds.
    """
    site = _describe_site(error)
    if isinstance(error, jax.errors.UnexpectedTracerError):
        return f"at {site}, a value of another traced function or loop is used. {ADVICE_ON_LEAKS}"
    if _is_item_assignment(error):
        return f"at {site}, an item of an array is changed in place. {_ADVICE_ON_ITEMS}"
    # A library may raise another error from JAX's error.
    request = error if is_request_for_value(error) else error.__cause__
    if not is_request_for_value(request):
        return None
    # All frames may be in installed packages, such as a command of the user's package.
    is_users = is_in_users_project if innermost_user_frame(error, is_in_users_project) else None
    found = innermost_user_frame(error, is_users)
    call = None if found is None else find_library_call(found)
    if call is not None:
        branches = isinstance(request, jax.errors.TracerBoolConversionError)
        if advice := call.advise(branches=branches):
            return f"at {error_site(error, is_users)}, {advice}"
    if request is not error:
        return None
    advice = "Use jnp functions of fixed shapes, such as jnp.where in place of a boolean index."
    for error_type, sentence in _ADVICE_ON_VALUES.items():
        if isinstance(error, error_type):
            advice = sentence
            break
    return f"at {site}, Python needs the value of a traced array. {advice}"


def _describe_site(error: Exception) -> str:
    """Return the ``file:line`` of the user's code that raised an error.

    If the line is in an installed package, the ``file:line`` of its caller in the user's project is
    added. The package may be the user's own, or a library that Bellhop does not know.

    Args:
        error: an exception with its traceback.
    """
    site = error_site(error)
    found = innermost_user_frame(error)
    caller = innermost_user_frame(error, is_in_users_project)
    if found is None or caller is None or found is caller:
        return site
    return f"{site}, called at {error_site(error, is_in_users_project)}"


def _is_item_assignment(error: Exception) -> bool:
    """Return whether an error is of an assignment ``a[i] = x`` with a traced value.

    NumPy needs the value of ``x`` or ``i`` to assign to its array, and JAX rejects assignments to
    its own arrays.

    Args:
        error: an exception of tracing, with its traceback.
    """
    found = innermost_user_frame(error)
    if found is None or not is_in_place_assignment(found.tb_frame.f_code, found.tb_lasti):
        return False
    # NumPy raises a second error, whose cause is the error of JAX.
    if any(isinstance(each, CONCRETIZATION_ERRORS) for each in (error, error.__cause__)):
        return True
    last = find_hidden_exception(error).__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is not None and last.tb_frame.f_code.co_filename.startswith(_JAX)
