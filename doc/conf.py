"""Sphinx: every code cell of every page runs when the pages are built."""

import importlib.metadata
import os
import sys
from pathlib import Path

DOC = Path(__file__).parent
sys.path.insert(0, str(DOC / "_extensions"))

from execution_cache import find_execution_cache  # noqa: E402

project = "Bellhop"
author = "The Bellhop developers"
copyright = "2026, the Bellhop developers"
release = importlib.metadata.version("pennylane-bellhop")
# Of a build between releases, the commit is in `release` alone.
version = release.partition("+")[0]

extensions = [
    "myst_nb",
    "sphinx_copybutton",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "built_pages",
    "mathml",
    "signatures",
]
exclude_patterns = ["_build", "_extensions", "_static", "expected"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# The theme. Nothing is fetched from a network: formulas are MathML, fonts are the reader's.
html_theme = "sphinx_book_theme"
html_title = f"Bellhop {version}"
html_logo = "_static/bell.svg"
html_favicon = "_static/bell.svg"
html_static_path = ["_static"]
html_css_files = ["bellhop.css"]
html_js_files = ["tables.js"]
html_math_renderer = "mathml"
html_copy_source = True
html_last_updated_fmt = None
html_theme_options = {
    "logo": {"text": html_title, "alt_text": "Bellhop"},
    # The side bar has the search; the header would contain a second search and nothing else.
    "navbar_persistent": [],
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "use_download_button": True,
    "use_fullscreen_button": False,
}
# On GitHub a workflow names the repository; a build elsewhere shows each page's own source.
if repository := os.environ.get("GITHUB_REPOSITORY"):
    server = os.environ.get("GITHUB_SERVER_URL", "https://github.com")
    html_theme_options |= {
        "repository_url": f"{server}/{repository}",
        "repository_branch": "main",
        "path_to_docs": "doc",
        "use_repository_button": True,
        "use_source_button": True,
        "use_edit_page_button": True,
    }
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

# Execution of the pages.
nb_execution_mode = "cache"
nb_execution_cache_path = str(find_execution_cache())
nb_execution_raise_on_error = True
# What programs write, keep_intermediate say, is not part of the pages.
nb_execution_in_temp = True
nb_execution_timeout = 300
# Outputs are text: the kernels inherit this.
os.environ["JAX_PPRINT_USE_COLOR"] = "0"
os.environ["BELLHOP_EXAMPLES"] = str(DOC.parent / "examples")
# What a callback prints and a cell's own output belong together.
nb_merge_streams = True
# Tables that cells give.
nb_render_markdown_format = "myst"
# No page has widgets; their script would come from a network.
nb_ipywidgets_js = {}

# The reference.
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
# `signatures` adds the types of attributes.
napoleon_attr_annotations = False
nitpicky = False
