"""Interpreters and passes for jaxprs with gates: adjoint, control, folding, noise, transforms."""
