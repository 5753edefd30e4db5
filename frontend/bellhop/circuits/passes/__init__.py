"""Interpret a jaxpr with gates, and change its operations: adjoint, control, folding, noise."""
