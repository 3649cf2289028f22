# The pages as a site: scripts/make-site, which says where Doxygen's XML lies.
import logging
import os

from sphinx.domains.cpp import CPPDomain

project = "kolo"
root_doc = "README"
extensions = ["myst_parser", "breathe"]
include_patterns = ["*.md", "docs/**.md", "examples/**.md", "reference/*.rst"]
breathe_projects = {"kolo": os.environ["KOLO_API_XML"]}
breathe_default_project = "kolo"
breathe_show_include = False
myst_heading_anchors = 6
html_theme = "alabaster"
html_title = "kolo"
html_theme_options = {"page_width": "1200px", "sidebar_width": "270px", "fixed_sidebar": True, "show_powered_by": False}
html_sidebars = {"**": ["searchbox.html", "navigation.html"]}
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_show_copyright = False
html_copy_source = False
html_show_search_summary = False  # a page from a file may not read another one
highlight_language = "none"  # blocks that name no language are commands and output
pygments_style = "friendly"


def is_told(record):
    """Each header opens the namespace, and a struct of C has two names: Sphinx takes both for a second declaration. Two
    declarations that macros and specializations make are beyond its grammar, and are shown as they are."""
    return not record.getMessage().startswith(("Duplicate C++ declaration", "Invalid C++ declaration"))


logging.getLogger("sphinx.sphinx.domains.cpp").addFilter(is_told)

# The search offers what a program can name: no parameters of functions.
all_objects = CPPDomain.get_objects
CPPDomain.get_objects = lambda domain: (entry for entry in all_objects(domain) if not entry[2].endswith("Param"))
