"""Build the documentation from the Markdown in this folder: `make docs`.

It needs the extras "app" and "docs", and no network: everything that a page needs is beside it.
"""

import re
from pathlib import Path

from plotly import offline

import dpmc_core

project = "DPMC Lab"
author = copyright = "DPMC Lab contributors"
version = release = dpmc_core.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "_static"]
myst_heading_anchors = 3
default_role = "code"  # docstrings mark names of code with single backticks

autodoc_typehints = "none"  # the docstrings give shapes and units, and signatures stay short
autodoc_preserve_defaults = True
napoleon_use_ivar = True
napoleon_attr_annotations = False
highlight_language = "none"  # of a block without a language, such as commands

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = f"DPMC Lab {version}"
html_static_path = ["_static"]
html_css_files = ["docs.css"]
html_extra_path = ["what-if.html", "papers.html", "what-if.webp"]


class Gallery:
    """Run the Python of a page in its order, and show below each block the `figure` it makes."""

    def __init__(self):
        self.names = {}
        self.count = 0

    def run_block(self, match):
        """Return a block of the page, followed by its figure if it makes one."""
        self.names.pop("figure", None)
        exec(compile(match[1], "docs/gallery.md", "exec"), self.names)
        if (figure := self.names.get("figure")) is None:
            return match[0]
        self.count += 1
        html = figure.to_html(
            full_html=False,
            include_plotlyjs="_static/plotly.js" if self.count == 1 else False,
            default_height="380px",
            config={"displayModeBar": False, "responsive": True},
        )
        return f"{match[0]}\n\n```{{raw}} html\n{html}\n```\n"


def prepare_page(_app, name, source):
    """Run the code of the gallery, and offer Markdown of other folders as a file."""
    if name == "gallery":
        source[0] = re.sub(r"```python\n(.*?)```", Gallery().run_block, source[0], flags=re.DOTALL)
    source[0] = re.sub(r"\[([^]]+)\]\((\.\./[^)]+\.md)\)", r"{download}`\1 <\2>`", source[0])


def shorten_signature(_app, kind, *_):
    """Leave the arguments of a class to the list of its attributes."""
    return ("", "") if kind == "class" else None


def write_plotly(app, _exception):
    """Write the script that draws the figures."""
    Path(app.outdir, "_static", "plotly.js").write_text(offline.get_plotlyjs(), encoding="utf-8")


def setup(app):
    """Connect the steps of the build."""
    app.connect("source-read", prepare_page)
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("build-finished", write_plotly)
