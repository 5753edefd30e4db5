"""The one place that decides: what executes a circuit, and how.

A decision is a lookup in ``runtime/executors.toml`` and a few predicates of typed facts.  Backends
call this package with the facts of a traced circuit; the package imports no backend.
"""
