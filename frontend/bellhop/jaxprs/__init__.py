"""Jaxprs: iterate over equations, interpret them and evaluate constants."""
