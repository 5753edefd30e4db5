"""Sphinx: every code cell of every page runs when the pages are built."""

import importlib.metadata
import os
from pathlib import Path

project = "Bellhop"
author = "The Bellhop developers"
copyright = "2026, the Bellhop developers"
release = importlib.metadata.version("pennylane-bellhop")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build", "expected", "README.md"]
html_theme = "sphinx_book_theme"
html_title = "Bellhop"
# The search stands in the side bar; the header would hold another one, and nothing else.
html_theme_options = {"navbar_persistent": []}
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

nb_execution_mode = "cache"
nb_execution_cache_path = str(Path(__file__).parent / "_build" / "executed")
nb_execution_raise_on_error = True
# What programs write, keep_intermediate say, is not part of the pages.
nb_execution_in_temp = True
nb_execution_timeout = 300
# Outputs are text: the kernels inherit this.
os.environ["JAX_PPRINT_USE_COLOR"] = "0"
os.environ["BELLHOP_EXAMPLES"] = str(Path(__file__).parents[1] / "examples")
# What a callback prints and a cell's own output belong together.
nb_merge_streams = True
# Tables that cells give.
nb_render_markdown_format = "myst"

autodoc_member_order = "bysource"
autodoc_typehints = "description"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
nitpicky = False
# A folder of pages may still be empty.
suppress_warnings = ["toc.empty_glob"]
