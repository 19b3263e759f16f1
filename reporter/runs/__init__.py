"""Decides what must run, runs it once, and stores what came out.

To be read in the order of a run: ``runner`` is the whole of it; ``studies`` reads the file; ``planner`` makes of it the
cells of ``plan`` (a metric on a pass, an analysis of an item, and what each depends on); ``work`` does them one by one:
``passes`` gets observables from ``kept``, from the ``parts`` that ranges of the corpus left, or by ``feeding`` the rest
to the model; ``cells`` computes rows, ``records`` says what else is stored; ``claims`` are tested, and ``findings``
looked for, last. Before that ``engines`` may have other processes do the ranges, which are ``tasks``.
"""
