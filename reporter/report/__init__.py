"""Charts, pages and the site: turns the database into static HTML and computes no number of its own."""

from reporter.report.site import render

__all__ = ["render"]
