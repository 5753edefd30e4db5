"""Arguments and results of functions: pytrees, types, signatures and static arguments."""
