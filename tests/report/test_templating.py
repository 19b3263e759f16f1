"""How texts are written on a page, and how the pages' script is joined from its modules."""

import sys

import pytest

from reporter.report import templating
from reporter.report.templating import coded, folded, join_modules

ONE = 'import { shout as loud } from "./voice.js";\nimport "./late.js";\nconst word = "a";\nlog.push(loud(word));\n'
VOICE = 'import { word } from "./words.js";\nexport function shout(text) {\n  return text + word;\n}\n'


def test_what_is_no_formula_keeps_its_underscores():
    assert coded("the token `a_b`, x_i <b>") == "the token <code>a_b</code>, x_i &lt;b&gt;"
    assert coded("one ` alone") == "one ` alone"


def test_a_long_text_opens_with_whole_sentences_or_clauses():
    text = "The mean (of a; b. c) over x of layer l. h is what Skean et al. show; " + "more of it; " * 40
    first, rest = folded(text)
    assert first.startswith("The mean (of a; b. c) over x of layer l. h is what Skean et al. show; more")
    assert 36 < len(first.split()) <= 40 and f"{first}; {rest}".split() == text.split()
    assert folded(text, 12)[0] == "The mean (of a; b. c) over x of layer l."
    assert folded("short; and whole") == ("short; and whole", "")
    assert folded(text, 2)[0] == "The mean (of a; b. c) over x of layer l.", "no clause is cut"


def join(folder, **modules):
    for name, text in modules.items():
        (folder / f"{name}.js").write_text(text, encoding="utf-8")
    return join_modules(folder, "one")


def test_modules_run_once_in_the_order_of_their_imports_with_names_of_their_own(tmp_path):
    late = 'import {\n  word as own,\n} from "./words.js";\nlog.push(own);\n'
    joined = join(tmp_path, one=ONE, voice=VOICE, late=late, words='export const word = "!";\nlog.push("words");\n')
    at = [joined.index(f"const module_{name} = ") for name in ("words", "voice", "late", "one")]
    assert at == sorted(at) and joined.count('const word = "!";') == 1
    assert "const { shout: loud } = module_voice;" in joined and "const { word: own } = module_words;" in joined
    assert "import" not in joined and "export" not in joined


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        ({"one": ONE}, "one.js imports voice.js, which is not there"),
        ({"one": ONE, "voice": VOICE, "words": ""}, "voice.js imports word from words.js, which does not export it"),
        (
            {"one": ONE, "voice": VOICE, "words": 'import { shout } from "./voice.js";\nexport const word = 1;\n'},
            "in a circle: voice -> words -> voice",
        ),
        ({"one": "export default 1;\n"}, "one.js has a form of import or export that is not known here"),
        ({"one": 'import * as all from "./one.js";\n'}, "a form of import or export that is not known"),
    ],
)
def test_what_cannot_be_joined_is_said(tmp_path, modules, message):
    with pytest.raises(ValueError, match=message):
        join(tmp_path, **modules)


@pytest.mark.slow
def test_a_script_that_was_begun_is_the_same_and_its_process_may_fail(tmp_path, reports, monkeypatch):
    kept = tmp_path / "kept"
    kept.mkdir()
    monkeypatch.setattr(templating, "kept", lambda: kept)
    monkeypatch.setattr(templating, "_begun", None)

    def written(name):
        templating._bundle.cache_clear()
        templating.write_assets(tmp_path / name)
        return (tmp_path / name / "assets" / templating.SCRIPT).read_text("utf-8")

    plain = (reports / "assets" / templating.SCRIPT).read_text("utf-8")
    templating.begin_script(reports)
    assert templating._begun is None, "the right one is there"
    templating.begin_script(tmp_path / "begun")
    assert templating._begun is not None
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "vl_convert", None)  # this process makes none
        assert written("begun") == plain
        monkeypatch.setattr(templating, "_begun", None)
        templating.begin_script(tmp_path / "again")
        assert templating._begun is None, "the last one is kept"
        assert written("again") == plain
    [bundle] = kept.glob("*.bundle")
    bundle.unlink()
    monkeypatch.setattr(templating, "_MAKING", "raise SystemExit(1)")
    monkeypatch.setattr(templating, "_begun", None)
    templating.begin_script(tmp_path / "failed")
    assert written("failed") == plain
