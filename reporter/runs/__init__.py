"""Decides what must run, runs it once, and stores what came out."""
