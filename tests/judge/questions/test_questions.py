"""All questions alike, claims and findings in Markdown, and which blocks can be removed."""

import duckdb
import numpy as np
import pandas as pd
import pytest
from judge.sentences.blocks import answer as removed
from judge.sentences.blocks import trial, without
from report.made_up import MODELS, fill, fill_whole

from reporter.judge.questions import stated
from reporter.judge.questions.blocks import BLOCKS, removals
from reporter.judge.questions.changed import CHANGED
from reporter.judge.questions.probes import PROBED
from reporter.judge.questions.question import answered, markdown
from reporter.judge.questions.training import TRAINING
from reporter.report.card import _blocks


def test_an_answer_names_why_the_numbers_are_missing():
    cells = [
        {"model": "m", "corpus": "p", "error": None, "reasons": '[{"statistic": "other", "reason": "no"}]'},
        {"model": "m", "corpus": "q", "error": None, "reasons": '[{"statistic": "linear", "reason": "one label"}]'},
        {"model": "n", "corpus": "q", "error": "model 'n': no memory", "reasons": None},
    ]
    lacks = answered(PROBED, "s", lambda sql: cells if "metric = 'probes'" in sql else []).lacks
    assert lacks == ("probe q of m has no accuracy: one label", "probe q of n has no accuracy: no memory")


CLAIM = {"claim": "c", "number": 1, "reading": 1, "says": "a | b\nis large", "view": "text tokens", "baseline": None}
CLAIM |= {"registration": "registered 2026-11-01, before the first number"}
CLAIMS = [
    CLAIM | {"verdict": "supported", "value": 0.98765, "ci_low": 0.9, "ci_high": 0.99},
    CLAIM
    | {"reading": 2, "view": "without sinks", "verdict": "refuted", "value": 0.1, "ci_low": None, "ci_high": None},
    CLAIM
    | {"claim": "sql", "number": 2, "verdict": "failed", "detail": '{"reason": "the query returned no rows"}'}
    | dict.fromkeys(("registration", "view", "value", "ci_low")),
]
BY_MODEL = [{"claim": "c", "model": "bert", "verdict": "refuted", "value": 0.2, "ci_low": 0.1, "ci_high": 0.3}]
FINDINGS = [{"says": "In m it peaks.", "value": 0.5, "ci_low": 0.4, "ci_high": 0.6, "looked_at": 1234}]


def as_markdown(*only):
    tables = {"claims_by_model": BY_MODEL, "FROM claims": CLAIMS, "": FINDINGS}
    return markdown(stated(lambda sql: next(rows for words, rows in tables.items() if words in sql), only))


def test_verdicts_are_a_table_and_findings_a_list():
    text = as_markdown("claims", "findings", "layer")
    assert "1 supported, 1 failed" in text
    assert "| a \\| b is large | text tokens | supported | 0.99 [0.90, 0.99] |" in text
    assert "| the same | without sinks | refuted | 0.1 |" in text
    assert "- Failed: a | b\nis large The query returned no rows." in text
    assert "| a \\| b is large | bert | refuted | 0.20 [0.10, 0.30] |" in text
    assert "- Claim c: registered 2026-11-01, before" in text and "- Claim sql: not registered." in text
    assert "1,234 tests" in text and "In m it peaks. (Difference 0.50 [0.40, 0.60].)" in text
    assert text.index("## What does it claim?") < text.index("## What stands out?")
    assert "claim" not in as_markdown("findings").partition("\n")[0]
    assert as_markdown("layer") == ""


@pytest.mark.parametrize("best", [(-0.2, -0.3, -0.1), (-0.2, -0.5, 0.1), (0.1, 0.05, 0.2)])
def test_the_best_repetition_of_blocks_is_in_the_answer(best):
    of = {"study": "s", "model": "dec", "checkpoint": "final"}
    names = ("item", "first", "last", "change", "change_low", "change_high")
    rows = [of | dict(zip(names, row, strict=True)) for row in (("t", 1, 4, 0.5, 0.4, 0.6), ("t", 2, 3, *best))]
    loss = {"corpus": "t", "metric": "skip", "statistic": "loss", "value": 4.5}
    tables = {
        "models": [of | {"baseline": None, "is_last": True, "parameters": 5000}],
        "repeated_blocks": rows,
        "layer_metrics": [of | loss],
    }

    def read(sql):
        if "FROM skipped_blocks" not in sql:
            return []
        with duckdb.connect() as connection:
            for name, table in (tables | {"skipped_blocks": [of | without("3", 0.1, 0.1, weights=1000)]}).items():
                connection.register(name, pd.DataFrame(table))
            return connection.execute(sql, {"study": "s"}).df().to_dict("records")

    answer = answered(BLOCKS, "s", read)
    row = answer.tables["block_answers"][0]
    assert (row["twice"], row["twice_change"]) == ("2–3", best[0]) and row["weights"] == 0.2


def test_the_order_of_blocks_by_loss_is_told_beside_what_the_proxy_would_cost():
    rows = trial([0.9, 0.4, 0.1, 0.2], [0.5, 0.1, 0.2, 0.6], [0.3, 0.2, 0, 0])
    rows += trial([1, 2, 3, 4], [1, 2, 3, 4], item="other") + trial([4, 3, 1, 2], [1] * 4, item="third")
    answer = removed([without("3", 0.1, 0.1)], rows)
    order = answer.tables["block_orders"][0]
    assert (order["block"], order["change"], order["ties"], order["proxy"]) == (3, 0.1, "4", 2)
    assert order["proxy_excess"] == pytest.approx(0.3) and order["proxy_low"] == 0.2
    # Orders 4 3 1 2 (here) and 1 2 3 4: one of six pairs agrees.
    assert (order["other"], order["tau"]) == ("other", pytest.approx(-4 / 6))


def test_what_removing_blocks_does_in_an_order_without_contradiction():
    tried = [without("4", -0.43, 0.11), without("3–4", -0.02, 0.1)]
    answer = removed(tried, trial([0.6, 0.5, -0.022, -0.43], [0.1, 0.2, 0.3, 0.4], half=0.11))
    says = list(removals(answer.tables["block_answers"], answer.tables["block_orders"][0]))
    firsts = (
        "Without block 4 the loss falls",
        "A model that predicts better",
        "Without block 3 the loss changes least",
        "Block 4 can",
        "Blocks 3–4 may be",
    )
    assert len(says) == 5 and all(map(str.startswith, says, firsts))
    (box,) = answer.boxes
    assert box.says.startswith(" ".join(says)), "the card of `look` and the answer use the same words"
    assert _blocks(answer.tables["block_answers"], answer.tables["block_orders"], [], "") == " ".join(says)
    assert ("perplexity" in str(box)) and f"× {np.exp(tried[0]['change']):.3g}" in str(box)


def test_three_clusters_of_500_texts_leave_wider_intervals_and_larger_p(tmp_path):
    path = tmp_path / "results.duckdb"
    fill(path, "trained", models=MODELS[2:3], corpora=("nested",), metrics=("anisotropy",))
    store, p, widths = fill_whole(path, metrics=("anisotropy", "change"), corpora=("nested",)), [], []

    def tables(question, study):
        return answered(question, study, lambda sql: store.records(sql, {"study": study})).tables

    for clusters in ("NULL", "3"):
        with duckdb.connect(str(path)) as connection:
            connection.execute(f"UPDATE corpora SET clusters = {clusters}")
        moved = [r["p_adjusted"] for r in tables(TRAINING, "trained")["training_answers"] if r["kind"] == "half-way"]
        p.append(min(moved))
        widths.append(np.mean([r["ci_high"] - r["ci_low"] for r in tables(CHANGED, "whole")["changed_numbers"]]))
    assert 0 < p[0] < p[1] / 10 and 0 < widths[0] < widths[1] / 1.5
