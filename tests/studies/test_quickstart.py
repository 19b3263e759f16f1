"""The quickstart's guided reading: its exercises change one line each, and its questions have answers."""

import re

import pytest
from studies.conftest import STUDIES, read

from reporter.runs.runner import run_studies
from reporter.runs.studies import offer
from reporter.store import Store, query_frame
from reporter.study import load_study

STUDY, GUIDE = ((STUDIES / f"quickstart.{ending}").read_text("utf-8") for ending in ("yaml", "md"))
EXERCISES = re.findall(
    r"^### (\d)\. .*?^```diff\n-(.*?)\n\+(.*?)\n```.*?^```sql\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL
)
QUESTIONS = re.findall(r"^```sql\n(.*?)^```", GUIDE.partition("## Three questions")[2], re.MULTILINE | re.DOTALL)
SMALLER = {"texts: 1000": "texts: 40", "texts: 300, words": "texts: 20, words", "width: 96": "width: 16"}
SMALLER |= {"steps: 300, checkpoints: [0, 75, 150, 300]": "steps: 2, checkpoints: [0, 2]"}
SMALLER |= {"steps: 160, checkpoints: [0, 30, 80, 160]": "steps: 2", "  - all\n": "  - entropy\n  - motion\n"}
SMALLER |= {"  - layer_pairs: {texts: 300}\n  - loss\n": ""}


@pytest.mark.usefixtures("every_interval")
def test_each_exercise_changes_one_line_and_all_questions_have_answers(tmp_path):
    shipped, whole, combined = read("quickstart").study, tmp_path / "whole.yaml", STUDY
    answers = re.findall(r"^(\d)\. ", GUIDE.partition("## Answers")[2], re.MULTILINE)
    assert [number for number, *_ in EXERCISES] == answers == ["1", "2", "3", "4", "5"]
    for _, old, new, _ in EXERCISES:
        assert STUDY.count(f"\n{old}\n") == 1
        whole.write_text(STUDY.replace(f"\n{old}\n", f"\n{new}\n"), "utf-8")
        assert load_study(whole, offer()).study != shipped
        combined = combined.replace(f"\n{old}\n", f"\n{new}\n")
    for old, new in SMALLER.items():
        assert old in combined
        combined = combined.replace(old, new)
    claims = "claims:\n" + combined[combined.index("  decoder-bulges:") :]
    (tmp_path / "small.yaml").write_text(combined[: combined.index("claims:")] + claims, "utf-8")
    run_studies([load_study(tmp_path / "small.yaml", offer())], tmp_path / "results")
    store = Store(tmp_path / "results" / "results.duckdb")
    frames = {number: store.frame(question) for number, *_, question in EXERCISES}
    assert [len(frame) >= (2 if number == "3" else 5) for number, frame in frames.items()] == [True] * 5
    assert {"text tokens", "with special tokens"} <= set(frames["1"]["view"])
    assert list(frames["3"]["view"]) == ["text tokens", "without sinks"] and (frames["3"]["verdict"] != "failed").all()

    largest, trained, mouse = (query_frame(tmp_path / "results" / "results.duckdb", sql) for sql in QUESTIONS)
    assert list(largest["model"]) == ["pocket-bert", "pocket-gpt2"] and (largest["low"] <= largest["share"]).all()
    assert list(trained["step"]) == [0, 2, 2]
    motion = store.frame(
        "SELECT model, layer FROM layers WHERE statistic = 'step_cosine' AND corpus = 'sentences' AND step = 2 "
        "AND \"view\" = 'text tokens' ORDER BY ALL"
    )
    assert mouse[["model", "layer"]].equals(motion) and mouse["mouse"].between(-1, 1).all()
