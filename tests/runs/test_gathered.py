"""Probes of texts that a pass reads take the vectors from that pass: no text goes through the model twice."""

import numpy as np
import pytest

from reporter.forward import text_vectors
from reporter.metrics import _items

TEXTS = [f"{who} {what} {where}" for who in ("a dog", "the cat") for what in ("sleeps", "runs") for where in "123456"]


def test_probes_take_the_vectors_of_the_pass_bit_for_bit(study, run, store, monkeypatch):
    file = study(
        ("corpora:\n", "corpora:\n  labelled: {file: labelled.csv, column: text, label: kind}\n"),
        metrics="[motion]",
        views="[words]",
        more="probes: {kind: {corpus: labelled, hidden: 0}}",
    )
    rows = [*TEXTS, *TEXTS[:3]]  # some twice
    (file.folder / "labelled.csv").write_text("text,kind\n" + "".join(f"{text},{text[0]}\n" for text in rows), "utf-8")

    def results(**options):
        outcome, log = run(file, only=["dec"], **options)
        assert outcome.exit_code == 0, log
        numbers = store.frame("FROM layer_metrics WHERE metric = 'probes' ORDER BY ALL")
        assert len(numbers)
        return numbers.drop(columns=["seconds"], errors="ignore"), store.frame("FROM projections ORDER BY ALL")

    with monkeypatch.context() as patch:
        patch.setattr(_items, "encode", lambda *_: pytest.fail("a text goes through the model once more"))
        gathered = results()
    monkeypatch.setattr(text_vectors, "MOST_BYTES", 0)
    read = []
    encode = _items.encode
    monkeypatch.setattr(_items, "encode", lambda texts, *more: read.append(len(texts)) or encode(texts, *more))
    encoded = results(force=True)
    assert read == [len(TEXTS)]
    for ours, theirs in zip(gathered, encoded, strict=True):
        assert ours.equals(theirs)
    assert np.isfinite(gathered[1][["x", "y"]].to_numpy()).all()
