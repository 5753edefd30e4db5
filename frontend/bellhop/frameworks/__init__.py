"""Functions of other frameworks as callbacks."""
