"""JAX's differentiation of a compiled circuit: primitives, rules and derivatives."""
