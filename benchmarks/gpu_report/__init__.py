"""A report of what runs on a GPU, in eight minutes on a machine without a network.

``make gpu-bundle`` writes the folder that such a machine needs; ``run.sh OUTPUT`` in it starts the
report.  ``steps.py`` lists the steps, ``runner.py`` runs each step's processes within its time
limit, and ``report_file.py`` rewrites ``report.json`` and ``report.md`` after each change.  These
modules import the standard library alone, so nothing that a GPU does can stop them.
"""
