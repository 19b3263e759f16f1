"""Beside each corpus: some of its texts, which can do nothing to the page, and how many models read in part."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from reporter.report import render

PAYLOADS = ["<script>alert(1)</script>", "{{ 7 * 7 }}{% raw %}", '"><img src=x onerror=alert(1)>', "\u202eبت end </ol>"]


@pytest.fixture
def shown(made_up: ModuleType, tmp_path: Path):
    """Returns a function that writes the page of a small study and returns its section on corpora."""
    models = [(name, "encoder", 2, 16, (None,)) for name in ("m", "n", "o")]
    store = made_up.fill(tmp_path / "results.duckdb", models=models, corpora=("nested", "plain"), metrics=("motion",))
    texts = [
        {"corpus": "nested", "number": n, "drawn": n > 2, "text": text, "characters": len(text) + (n == 1)}
        for n, text in enumerate(PAYLOADS, 1)
    ]
    store.replace("corpus_texts", "made-up", texts)

    def write(report: str = "", **cut: tuple[int, int | None]) -> str:
        for model, (texts, own) in cut.items():
            key = {"study": "made-up", "model": model, "checkpoint": "final"}
            store.put("models", tuple(key), key | {"max_tokens": own})
            cell = key | {"corpus": "nested", "metric": "motion"}
            store.put("cells", tuple(cell), cell | {"cut_texts": texts, "inputs": '{"max_tokens": 256}'})
        store.put("studies", ("study",), {"study": "made-up", "spec": f"study: made-up\n{report}"})
        render(tmp_path / "results.duckdb", tmp_path)
        page = (tmp_path / "made-up" / "index.html").read_text(encoding="utf-8")
        return page.partition('<section id="corpora"')[2].partition("</section>")[0]

    return write


def test_texts_are_shown_folded_and_inert(shown):
    section = shown()
    assert "<details><summary>4 of its texts</summary>" in section
    assert "&lt;script&gt;alert(1)&lt;/script&gt;…" in section, "the first one is longer than what is kept of it"
    assert "{{ 7 * 7 }}{% raw %}" in section and "49" not in section
    assert "<script" not in section and "<img" not in section and section.count("</ol>") == 1
    assert section.count("<bdi>") == 4, "what turns the direction of reading around stays inside"
    assert section.count("<small>drawn</small>") == 2
    assert "of its texts" not in shown("report: {hide: [samples]}\n")


def test_how_many_were_cut_stands_beside_the_corpus(shown):
    same = shown(m=(50, None), n=(50, 512), o=(50, None))
    assert "<td>50 of 500 (10 %), at 256 tokens</td>" in same
    section = shown(m=(100, 128), n=(0, None), o=(0, None))
    assert re.findall("<td>(m: .*?)</td>", section)[0] == "m: 100 of 500 (20 %), at 128 tokens<small>n, o: none</small>"
