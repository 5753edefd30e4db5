"""Import all modules of Bellhop's frontend: ``python -m tests.deletion.import_all``."""

import importlib
import pkgutil

import bellhop

for module in pkgutil.walk_packages(bellhop.__path__, "bellhop."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
