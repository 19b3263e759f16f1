"""How long texts are folded on a page, and the pages' script, which another process may have begun."""

import sys

import pytest

from reporter.report import templating
from reporter.report.templating import folded


def test_a_long_text_opens_with_whole_sentences_or_clauses():
    text = "The mean (of a; b. c) over x of layer l. h is what Skean et al. show; " + "more of it; " * 40
    first, rest = folded(text)
    assert first.startswith("The mean (of a; b. c) over x of layer l. h is what Skean et al. show; more")
    assert 36 < len(first.split()) <= 40 and f"{first}; {rest}".split() == text.split()
    assert folded(text, 12)[0] == "The mean (of a; b. c) over x of layer l."
    assert folded("short; and whole") == ("short; and whole", "")
    assert folded(text, 2)[0] == "The mean (of a; b. c) over x of layer l.", "no clause is cut"


@pytest.mark.slow
def test_a_script_that_was_begun_is_the_same_and_its_process_may_fail(tmp_path, reports, monkeypatch):
    kept = tmp_path / "kept"
    kept.mkdir()
    monkeypatch.setattr(templating, "kept", lambda: kept)
    plain = (reports / "assets" / templating.SCRIPT).read_text("utf-8")

    def begun_and_written(name):
        monkeypatch.setattr(templating, "_begun", None)
        templating._bundle.cache_clear()
        templating.begin_script(tmp_path / name)
        begun = templating._begun is not None
        templating.write_assets(tmp_path / name)
        return begun, (tmp_path / name / "assets" / templating.SCRIPT).read_text("utf-8") == plain

    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "vl_convert", None)  # this process makes none
        assert begun_and_written("first") == (True, True)
        assert begun_and_written("again") == (False, True), "the last one is kept"
    [bundle] = kept.glob("*.bundle")
    bundle.unlink()
    monkeypatch.setattr(templating, "_MAKING", "raise SystemExit(1)")
    assert begun_and_written("failed") == (True, True)
