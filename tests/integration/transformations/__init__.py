"""Every flavour of callback under every transformation, declared once.

``callback_types.py`` has the rows of the table and what they refuse, ``programs.py`` the columns;
``cells.py`` runs a cell and ``table.py`` writes what was observed.  The tests and
``doc/reference/callback-transformations.md`` come of the same declarations:

    python -m tests.integration.transformations
"""
