"""What may be refused: patterns of messages, and why that is right."""

REFUSALS = {
    r"Reverse-mode differentiation does not work for lax.while_loop": "JAX: while_loop",
    # doc/reference/callback-transformations.md says so.
    r"IO effects? not supported in (vmap|while_loop)": "JAX: effects under vmap",
    r"Effects not supported in partial-eval of `checkpoint`": "JAX: its io_callback in checkpoint",
    # What is traced need not run, and no device of these programs has such a wire.
    r"CompileError: the QNode .* there is no wire (-?\d+) on the device; its wires are "
    r"\[(?!.*\b\1\b)": "a wire that is known",
    r"its fwd and bwd rules define reverse mode only": "forward mode of what does not run",
    # Mapped, both branches run for every row.
    r"CircuitError: .* Row \d+ of a batch of .* wire -?\d+ is not in": "a wire of another branch",
    # Its steps back compute the iterations again, effects too.
    r"would repeat calls with side effects whose results the": "effects",
}
