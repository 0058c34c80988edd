"""The hook and the filter that mkdocs builds the site with."""
