"""What may be refused: patterns of messages, and why that is right."""

REFUSALS = {
    r"Reverse-mode differentiation does not work for lax.while_loop": "JAX: while_loop",
}
