"""The documentation: pages that people write, pages that follow from what the program declares, and the site of both.

``pages/`` are Markdown, ``reference`` and ``keys`` write the others, ``site`` has Sphinx make HTML of them, and
``hatch_build`` puts that into a wheel, where there is no README to read from.
"""
