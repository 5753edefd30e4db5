"""Measurements and observables: what the runtime is asked for, and what is made of its answers."""
