"""Texts of one author: read from any table, one unit of observation however they are sampled or tokenised."""

import json

import numpy as np
import pytest

from reporter.study import SpecError
from reporter.texts.sources.stored import DatasetCorpus, FileCorpus
from reporter.texts.texts import originals
from reporter.texts.tokens import TokenisedCorpus

from .test_files import write_table
from .test_hub_dataset import Rows, hub  # noqa: F401

ROWS = [("a b", "ann"), ("c", None), ("d e", "bob"), ("a b", "bob"), ("f", "ann"), ("g h", None), ("i", "bob")]
FIRST = [0, 1, 2, 2, 0, 5, 2]
KEYS = {"column": "text", "cluster": "author"}


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "json", "parquet", "csv.gz"])
def test_every_table_gives_the_same_clusters(build, refused, tmp_path, ending):
    rows = [(text, "" if ending[1:3] == "sv" and author is None else author) for text, author in ROWS]
    write_table(tmp_path / f"t.{ending}", rows, ("text", "author"))
    texts = build(FileCorpus(file=f"t.{ending}", **KEYS))
    assert texts.clusters.tolist() == FIRST and texts.labels is None and texts.units == 4
    assert [texts.holding(units) for units in (1, 2, 3, 4, 9)] == [1, 2, 3, 6, 6]
    assert "has 4 clusters" in texts.warning
    plain, other = (build(FileCorpus(file=f"t.{ending}", column="text", cluster=by)) for by in (None, "text"))
    assert plain.clusters is None and (plain.units, other.units, plain.warning) == (7, 6, "")
    assert len({other.hash, plain.hash, texts.hash}) == 3
    says = r"has no column 'autor' for `cluster`; did you mean 'author'\?"
    refused(says, FileCorpus(file=f"t.{ending}", column="text", cluster="autor"))


def test_a_dataset_has_clusters_beside_labels(build, hub):  # noqa: F811
    hub.rows = Rows({"text": [text for text, _ in ROWS], "label": [1, 0] * 3 + [1], "id": [7, 8, 9, 9, 7, None, 9]})
    texts = build(DatasetCorpus(dataset="org/set", label="label", cluster="id"))
    assert texts.clusters.tolist() == FIRST and texts.label(0) == "pos"


def test_a_sample_keeps_clusters_and_a_repeated_text_goes_with_its_first_author(build, tmp_path):
    write_table(tmp_path / "t.csv", [(text, author or "") for text, author in ROWS], ("text", "author"))
    thinned = build(FileCorpus(file="t.csv", size_of="other", **KEYS), words_of=lambda name: 6)
    kept = {FIRST[row] for row, (text, _) in enumerate(ROWS) if text in list(thinned)}
    assert len(thinned) < len(ROWS) and thinned.units <= len(kept)
    texts = build(FileCorpus(file="t.csv", **KEYS))
    starts = np.array([0, 0, 1, 3, 3, 4, 6, 7])  # the first text and the fourth have no token
    none, cut = np.zeros(0), np.zeros(7, bool)
    firsts = originals(map(str.encode, texts))
    corpus = TokenisedCorpus("t", (), starts, cut, firsts, none, none, texts.clusters)
    assert corpus.units.tolist() == [0, 1, 2, 0, 0, 5, 2], "the fourth text repeats the first, which is ann's"
    assert np.flatnonzero(corpus.representatives).tolist() == [1, 2, 4, 5]


def test_mistakes_and_few_clusters_are_reported_with_their_place(tmp_path):
    from reporter.runs.studies import absent, cautions_of, read_study

    study = "study: s\nmodels: {m: {path: .}}\ncorpora:\n  c: {file: t.jsonl, column: text, cluster: by}\n"
    path = tmp_path / "s.yaml"
    path.write_text(study)
    for groups, says in ((7, "a verdict needs 12: add"), (15, "intervals and tests over fewer than 20")):
        lines = (json.dumps({"text": f"text {i}", "by": i % groups}) for i in range(30))
        (tmp_path / "t.jsonl").write_text("\n".join(lines))
        (note,) = cautions_of(read_study(path))
        assert note.startswith(f"corpus 'c' has {groups} clusters; {says}")
    path.write_text(study.replace("cluster: by", "cluster: author"))
    problem = next(problem for problem in absent(read_study(path)) if "author" in problem.message)
    assert problem.line == 4 and problem.column > 1 and "Columns: text, by" in problem.message
    path.write_text(study.replace("file: t.jsonl, column: text", "texts: [a, b]"))
    with pytest.raises(SpecError, match="cluster"):
        read_study(path)
