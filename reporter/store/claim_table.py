"""The table of claims: what a study states, and what became of it."""

from __future__ import annotations

from reporter.store.table import STUDY, Column, Table

CLAIMS = Table(
    "claims",
    "A claim of a study under one view, on its models or on a null baseline of them, and the verdict.",
    ("study", "claim", "reading"),
    (
        STUDY,
        Column("claim", "VARCHAR", "name of the claim in the study"),
        Column("number", "INTEGER", "place of the claim in the study, from 1"),
        Column(
            "reading",
            "INTEGER",
            "1 = the claim itself: its first view, on the models; 2, 3, … = the same under another view or on a "
            "baseline, to show what the verdict hangs on; these are not counted among the claims tested",
        ),
        Column("says", "VARCHAR", "the claim in words"),
        Column("source", "VARCHAR", "who says it, and where; NULL where the study does not tell"),
        Column("kind", "VARCHAR", "'value', 'shape', 'differ' or 'relation'"),
        Column("view", "VARCHAR", "which tokens counted; NULL for a claim by SQL, which says so itself"),
        Column("baseline", "VARCHAR", "'random-init' or 'shuffled'; NULL = the models themselves"),
        Column(
            "verdict",
            "VARCHAR",
            "'supported', 'refuted' (the opposite is shown), 'inconclusive' (neither is) or 'failed' (numbers "
            "are missing; detail says which); after the correction for the number of claims",
        ),
        Column(
            "value",
            "DOUBLE",
            "the number that the verdict rests on (detail.statistic says what it is; of several the one that decides)",
        ),
        Column("ci_low", "DOUBLE", "lower end of its 95 % interval, not corrected; NULL where it has none"),
        Column("ci_high", "DOUBLE", "upper end"),
        Column("paper", "DOUBLE", "the work's own number, where the study gives it"),
        Column(
            "p",
            "DOUBLE",
            "of the number: twice the smaller of two one-sided p-values, that the claim holds and that it fails, with "
            "no correction; NULL where a number without an interval was compared as it stands",
        ),
        Column(
            "p_adjusted",
            "DOUBLE",
            "of the whole claim, which is as sure as its least sure part, after Holm's correction over the study's "
            "claims, two tests each; at most 0.05 in a verdict of 'supported' or 'refuted'; readings after the first "
            "are not corrected",
        ),
        Column("detail", "VARCHAR", "JSON object: statistic, definition, reason, evidence, sql and more"),
    ),
)
