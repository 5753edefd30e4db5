"""Call functions in child processes that may die, and say where they did."""

import ctypes as c
import os
import resource
import signal
import sys

_FATAL = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)
_MEMORY = 16 << 30
_OURS = "_runtime."
_THEIRS = ("jaxlib", "xla", "pennylane_lightning", "scipy_openblas", "libjax")


def in_child(function, *, seconds):
    """Return what a function returns in a forked child, which ends after some seconds.

    This process must have started no threads: JAX's client is the child's own.

    Args:
        function: of no arguments; returns a string.
        seconds: of the clock.

    Returns:
        The string; or ``died in bellhop``, ``died elsewhere`` with the stack, or ``timeout``.
    """
    reader, writer = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reader)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(writer, 2)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            # AddressSanitizer takes addresses for all memory that there could be.
            if "libasan" not in os.environ.get("LD_PRELOAD", ""):
                resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
            signal.alarm(seconds)
            _show_stacks(writer)
            outcome = function()
            os.write(writer, f"\noutcome: {outcome}".encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with open(reader, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
        return "timeout"
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
        return said.rpartition("outcome: ")[2]
    # XLA refuses what it cannot have by ending the process.
    stack = said.partition("fatal signal\n")[2]
    where = "bellhop" if _is_ours(stack) else "elsewhere"
    return f"died in {where}: {os.waitstatus_to_exitcode(status)} {(stack or said)[-1500:]}"


def _is_ours(stack):
    """Tell whether a frame of the runtime is nearer to the fault than one of XLA or of a plugin."""
    for line in stack.splitlines():
        if _OURS in line:
            return True
        if any(each in line.lower() for each in _THEIRS):
            return False
    return False


def _show_stacks(descriptor):
    """Let a fatal signal write the frames of its thread."""
    libc = c.CDLL(None)
    frames = (c.c_void_p * 100)()
    libc.backtrace(frames, 1)  # Loads what it needs.

    def handler(number):
        os.write(descriptor, b"\nfatal signal\n")
        libc.backtrace_symbols_fd(frames, libc.backtrace(frames, 100), descriptor)
        os._exit(128 + number)

    handler_type = c.CFUNCTYPE(None, c.c_int)
    _show_stacks.kept = handler_type(handler)
    libc.signal.argtypes = (c.c_int, handler_type)
    for number in _FATAL:
        libc.signal(number, _show_stacks.kept)
