"""The search of the documentation finds the page that answers a question first, with a snippet around its words."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from browser.conftest import require

from reporter.app.docs import search

QUESTIONS = yaml.safe_load(Path(__file__).with_name("questions.yaml").read_text("utf-8"))
ASK = """
import fs from "fs";
import { find, index, snippet } from "./search.mjs";
(0, eval)(fs.readFileSync(process.argv[2], "utf8"));
const sections = index(globalThis.searchSections);
const found = JSON.parse(process.argv[3]).map(question => {
  const [first, ...others] = find(sections, question);
  return [first?.page, others.length, first ? snippet(first.text, question) : []];
});
console.log(JSON.stringify(found));
"""


@pytest.fixture
def ask(documentation, tmp_path):
    node = shutil.which("node")
    require(node, "Debian's nodejs")
    (tmp_path / "search.mjs").write_text(Path(search.__file__).with_name("search.js").read_text("utf-8"))
    (tmp_path / "ask.mjs").write_text(ASK)

    def asked(*questions):
        command = [node, tmp_path / "ask.mjs", documentation / "searchindex.js", json.dumps(questions)]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    return asked


def test_the_right_page_comes_first_for_fifty_questions(ask, documentation):
    assert len(QUESTIONS) >= 50 and all((documentation / f"{page}.html").is_file() for page in QUESTIONS.values())
    pages = {question: page for question, (page, *_) in zip(QUESTIONS, ask(*QUESTIONS), strict=True)}
    assert not {question: page for question, page in pages.items() if page != f"{QUESTIONS[question]}.html"}


def test_a_snippet_marks_the_words_and_is_short(ask):
    ((page, others, pieces),) = ask("sinks")
    text = "".join(piece["text"] for piece in pieces)
    assert page.endswith(".html") and 3 < others < 80 and 40 < len(text) < 260
    assert all("sink" in piece["text"].lower() for piece in pieces if piece["marked"])
    assert any(piece["marked"] for piece in pieces)


def test_a_word_that_is_half_typed_finds_and_one_that_is_nowhere_does_not(ask):
    (half, *_), (nowhere, *_) = ask("intrinsic dimens", "xyzzyplugh")
    assert half == "metrics/intrinsic_dimension.html" and nowhere is None
