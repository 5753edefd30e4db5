"""The one place that decides: what executes a circuit, and how.

A decision is a lookup in ``runtime/executors.toml`` and a few predicates of facts, which are typed.
Backends ask for decisions about what they find in a circuit; this package imports no backend.
"""
