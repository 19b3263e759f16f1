"""What the README shows is run, so that it cannot go stale."""

import re
import textwrap
from pathlib import Path

from reporter.runs.studies import offer
from reporter.spec import load_study

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_the_studies_are_valid(tmp_path):
    studies = blocks("yaml")
    assert len(studies) == 1
    for text in studies:
        path = tmp_path / "study.yaml"
        path.write_text(text, "utf-8")
        assert load_study(path, offer()).study.models


def test_the_python_block_runs(tmp_path, monkeypatch, bare_runs):
    text = """
        study: small
        models: {small: {recipe: {architecture: gpt2, layers: 2, width: 16, heads: 2, train_on: c, steps: 0}}}
        corpora: {c: {generate: grammar, texts: 40, words: [5, 12]}}
        metrics: [intrinsic_dimension]
        claims:
          a: {says: It has one., value: {metric: intrinsic_dimension.twonn, model: small, layer: last}, above: 1}
    """
    (tmp_path / "study.yaml").write_text(textwrap.dedent(text), "utf-8")
    monkeypatch.chdir(tmp_path)
    found = {"__name__": "__main__"}
    with bare_runs():
        exec(compile(blocks("python")[0], "README.md", "exec"), found)
    assert list(found["results"].claims["verdict"].unique()) == ["supported"]
    assert len(found["results"].layer_metrics)


def test_links_lead_to_files():
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert len(links) > 8 and not [link for link in links if not (ROOT / link).is_file()]


def test_output_is_that_of_a_stored_run():
    """The file holds what the commands printed for MiniLM and SmolLM2, in full."""
    stored = " ".join((ROOT / "tests/readme_run.txt").read_text("utf-8").split())
    shown = blocks("text")
    assert len(shown) == 3
    for block in shown:
        for part in block.split("\n  …\n"):
            assert " ".join(part.split()) in stored


def test_it_is_short():
    prose = re.sub(r"```.*?```|<picture>.*?</picture>|^\|.*?$|`[^`]*`", " ", README, flags=re.MULTILINE | re.DOTALL)
    sentences = [len(text.split()) for text in re.split(r"(?<=[.!?:])\s+", prose) if len(text.split()) > 3]
    assert len(README.splitlines()) <= 120 and len(README.split()) <= 900
    assert sum(sentences) / len(sentences) <= 18
    pictures = [*(ROOT / ".github").glob("*.png")]
    assert len(pictures) == 2 and all(path.stat().st_size <= 300_000 for path in pictures)
