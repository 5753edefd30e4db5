"""Adjoint and controlled functions: passes that expand them to plain gates."""
