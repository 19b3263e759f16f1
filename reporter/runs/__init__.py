"""Decides what must run, runs it once, and stores the results.

``runner`` is the whole of a run. ``studies`` reads the file, and ``planner`` makes the cells of ``plan``: a metric on a
pass, or an analysis of an item. ``engines`` may have other processes do ``tasks``, the ranges of a pass; ``work`` does
the rest. ``cells`` computes rows, ``records`` describes what ran, ``whole`` tests claims and looks for findings last.
"""
