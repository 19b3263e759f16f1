"""Studies that extend others, and calls that say something otherwise, and where mistakes are shown."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from reporter.core.errors import UsageError
from reporter.runs.studies import read_studies, read_study, study_of
from reporter.study import SpecError
from reporter.study.load import _Dumper, shipped
from reporter.study.study import write_metric
from reporter.study.yaml_reader import read_yaml

BASE = """\
study: base
title: Below
models:
  a: {path: checkpoints/a}
  b: google-bert/bert-base-uncased
corpora:
  wiki: {file: texts/wiki.txt, unit: line, limit: 1000}
  few: {texts: [wiki.txt is a text here]}
metrics: [anisotropy, motion]
claims:
  of-a: {says: A., shape: {metric: anisotropy.top_variance_share, models: a, is: bell}}
  of-decoders: {says: D., shape: {metric: anisotropy.top_variance_share, models: decoders, is: bell}}
  turns: {says: T., shape: {metric: motion.step_cosine, models: all, is: increasing}}
  by-sql: {says: S., value: {sql: "SELECT value FROM layer_metrics WHERE model = 'b'"}, below: 1}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "base.yaml").write_text(BASE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def child(text, *changes):
    Path("mine/child.yaml").write_text(f"study: child\nextends: ../base.yaml\n{text}")
    return read_study(Path("mine/child.yaml"), changes)


def refused(text, *changes):
    with pytest.raises((SpecError, UsageError)) as caught:
        child(text, *changes)
    return str(caught.value).splitlines()


def the_problem(name, text):
    Path(name).write_text(text)
    with pytest.raises(SpecError) as caught:
        read_study(Path(name))
    (problem,) = caught.value.problems
    return problem


def test_a_key_takes_the_place_of_the_whole_key_below():
    file = child("corpora:\n  wiki: {file: other.txt}\n")
    study = file.study
    assert (study.study, study.title, study.extends, file.notes) == ("child", "Below", None, ())
    assert list(study.models) == ["a", "b"]
    assert list(study.corpora) == ["wiki"] and study.corpora["wiki"].limit is None
    number = child("title: '1e-3'\n")  # text that looks like a number stays text
    assert number.study.title == "1e-3" == read_yaml(number.text).data["title"]


def test_an_extended_study_has_no_claims_or_a_mapping_of_them():
    bare, _, _ = BASE.partition("claims:")
    Path("base.yaml").write_text(bare)
    assert child("title: Above\n").study.claims == {}
    Path("base.yaml").write_text(f"{bare}claims: []\n")
    (line,) = refused("title: Above\n")
    assert line.startswith("base.yaml:10:9: claims: expected a mapping")


def test_paths_start_from_the_file_that_they_stand_in(folder):
    file = child("models:\n  m: {path: here}\n  n: {path: ~/there}\n  o: {path: /absolute}\n")
    assert file.folder / file.study.models["m"].path == folder / "mine" / "here"
    assert (file.folder / file.study.corpora["wiki"].file).resolve() == folder / "texts" / "wiki.txt"
    assert "file: ../texts/wiki.txt" in file.text and "- wiki.txt is a text here" in file.text
    assert file.study.models["o"].path == Path("/absolute") and str(folder) not in file.text
    Path("mine/deep").mkdir()
    Path("mine/deep/grandchild.yaml").write_text("study: g\nextends: ../child.yaml\ntitle: Above\n")
    deep = read_study(Path("mine/deep/grandchild.yaml"))
    assert deep.study.title == "Above"
    assert (deep.folder / deep.study.models["m"].path).resolve() == folder / "mine" / "here"
    assert (deep.folder / deep.study.corpora["wiki"].file).resolve() == folder / "texts" / "wiki.txt"


def test_so_do_lists_of_words_pairs_datasets_and_plugins():
    write_metric("plug", ())
    probes = "probes: {p: {words: words.yaml}, q: {words: shipped}}\npairs: {r: {file: r.yaml}}\n"
    text = BASE.replace("wiki: {", "data: {dataset: ./data}\n  hub: {dataset: owner/data}\n  wiki: {")
    Path("base.yaml").write_text(f"{text}plugins: [plug.py]\n{probes}")
    data = read_yaml(child("").text).data
    assert data["plugins"] == ["../plug.py"] and data["pairs"] == {"r": {"file": "../r.yaml"}}
    assert data["probes"] == {"p": {"words": "../words.yaml"}, "q": {"words": "shipped"}}
    assert [data["corpora"][name]["dataset"] for name in ("data", "hub")] == ["../data", "owner/data"]


def test_what_is_stored_says_everything_by_itself():
    file = child("models: {m: {path: here}}\n", "corpora.wiki.limit=200")
    Path("mine/alone.yaml").write_text(file.text)
    Path("base.yaml").unlink()
    assert read_study(Path("mine/alone.yaml")).study.model_dump() == file.study.model_dump()
    assert study_of(file).text == file.text  # as a program does that validates and then runs
    assert file.study.corpora["wiki"].limit == 200


def test_claims_about_what_was_replaced_are_left_out_and_said():
    file = child("models: {m: {path: here}}\nmetrics: [anisotropy]\n")
    assert list(file.study.claims) == ["of-decoders"]
    left_out = {note.split(" of the extended study is left out: ")[0] for note in file.notes}
    assert left_out == {"claim by-sql", "claim of-a", "claim turns"}
    assert all("of-a" not in line for line in file.text.splitlines())


def test_claims_that_are_wrong_themselves_are_not_left_out():
    Path("base.yaml").write_text(BASE.replace("models: a,", "models: nobody,").replace("says: D.,", ""))
    lines = refused("models: {m: {path: here}}\n")
    places = [" ".join(line.split(": ")[:2]) for line in lines]
    assert places == ["base.yaml:11:75 claims.of-a.shape.models", "base.yaml:12:3 claims.of-decoders.says"]
    Path("base.yaml").write_text(BASE)
    claim = "{says: O., shape: {metric: anisotropy.top_variance_share, models: nobody, is: bell}}"
    Path("between.yaml").write_text(f"study: between\nextends: base.yaml\nclaims:\n  odd: {claim}\n")
    Path("mine/child.yaml").write_text("study: child\nextends: ../between.yaml\nmodels: {m: {path: here}}\n")
    with pytest.raises(SpecError, match=r"^between\.yaml:4:\d+: claims\.odd\.shape\.models: "):
        read_study(Path("mine/child.yaml"))


def test_mistakes_are_shown_in_the_file_that_makes_them():
    Path("base.yaml").write_text(BASE.replace("unit: line", "unit: lines").replace("title: Below", "title: !odd x"))
    lines = refused("modles: {}\nviews: [wrds]\n", "run.seed=x")
    places = ["mine/child.yaml:3:1", "mine/child.yaml:4:9", "--set run.seed=x", "base.yaml:2:8", "base.yaml:7:38"]
    assert [line.split(": ")[0] for line in lines] == places


NOT_EXTENDED = {
    "nowhere.yaml": "there is no such file",
    "eacl-anisotrpy": "(a path must end in .yaml); did you mean 'eacl-anisotropy'?",
    "self.yaml": "circular reference",
    "round.yaml": "circular reference",
    "[a, b]": "expected a study that ships with reporter, or a path that ends in .yaml, got a list",
}


@pytest.mark.parametrize("extends", NOT_EXTENDED)
def test_what_cannot_be_extended_is_one_line(extends):
    Path("round.yaml").write_text("study: r\nextends: self.yaml\n")
    problem = the_problem("self.yaml", f"study: s\nextends: {extends}\nmodels: {{a: b}}\n")
    assert (problem.where, problem.line, problem.column) == ("extends", 2, 10)
    assert NOT_EXTENDED[extends] in problem.message


def test_a_study_has_an_id_of_its_own():
    Path("nameless.yaml").write_text("extends: base.yaml\n")
    Path("other.yaml").write_text("extends: base.yaml\nstudy: S\n")
    with pytest.raises(SpecError, match=r"nameless.yaml:1:1: study: missing key(.|\n)*other.yaml:2:8: study: "):
        read_studies([Path("nameless.yaml"), Path("base.yaml"), Path("other.yaml")])  # all are read before a complaint
    Path("twice.yaml").write_text("extends: base.yaml\nstudy: base\n")
    with pytest.raises(SpecError, match=r"twice.yaml:2:8: study: base.yaml has the same id 'base'; give each"):
        read_studies([Path("base.yaml"), Path("twice.yaml")])


def test_what_cannot_be_set_is_said_with_what_was_written():
    remedies = {
        "corpora.wiki.limt=2": "corpora.wiki.limt: unknown key; did you mean 'limit'?",
        "corpora.wki.limit=2": "no key 'wki' under 'corpora'; did you mean 'wiki'?",
        "modles.x=3": "modles: unknown key; did you mean 'models'?",
        "metrics.x=3": "'metrics' is a list; set the whole list with --set 'metrics=[…]'",
        "title.x=3": "'title' is text 'Below' and has no keys; replace it with --set 'title=…'",
        "nothing": "expected KEY=VALUE, such as models.bert=./mine or corpora.wiki.limit=200",
        "run..seed=3": "a key is empty in 'run..seed'; write KEY.KEY=VALUE",
        "title=[a": "the list that '[' opens here lacks ',' or ']'",
        "extends=x": "`extends` cannot be overridden; edit the study file",
    }
    for change, says in remedies.items():
        assert refused("", change) == [f"--set {change}: {says}"]


def test_what_is_set_wins_and_a_folder_is_a_model(folder):
    Path("mine/plain.yaml").write_text(BASE)
    changes = ["models.a=./mine/tuned", "models.Qwen2.5=Qwen/Qwen2.5-0.5B", "models.Qwen2.5.dtype=bfloat16"]
    with pytest.raises(UsageError, match=r"'models\.'Qwen2\.5'' is text"):
        read_study(Path("mine/plain.yaml"), changes)
    changes[1] = "models.Qwen2.5={hub: Qwen/Qwen2.5-0.5B}"
    changes += ["run.device=cpu", "metrics=none", "claims={}"]
    file = read_study(Path("mine/plain.yaml"), changes)
    models = file.study.models
    assert (file.folder / models["a"].path).resolve() == folder / "mine" / "tuned"  # from where the call was made
    assert (models["Qwen2.5"].hub, models["Qwen2.5"].dtype) == ("Qwen/Qwen2.5-0.5B", "bfloat16")
    assert file.study.run.device == "cpu" and not file.study.metrics and not file.study.claims
    assert read_study(Path("mine/plain.yaml")).text == BASE  # character for character where nothing is set


@pytest.mark.parametrize("name", [name for name in shipped() if not name.startswith("known/")])
def test_every_shipped_study_can_be_built_on(name):
    Path("mine.yaml").write_text(f"study: mine\nextends: {name}\n")
    whole, below = read_study(Path("mine.yaml")), read_study(shipped()[name]).study
    assert whole.study.claims == below.claims and list(whole.study.models) == list(below.models) and not whole.notes


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
    | st.sampled_from(["1e-3", "no", "12:30", "010", "0o7", "~", "", ".5", "null", "*a", "a: b", "x #y", "1_0", "<<"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS.filter(lambda t: t != "<<"), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.sampled_from("abc"), VALUES, min_size=1))
def test_what_is_written_is_read_as_it_was(data):
    text = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    document = read_yaml(text)
    assert not document.problems and document.data == data


MODELS = "models of this study: bert, gpt2"
CONDITIONS = {
    "model = 'brt'": "no model 'brt'; did you mean 'bert'?",
    "model_a = 'olmo'": f"no model 'olmo'; {MODELS}",
    "\"model\" in ('bert', 'olmo')": f"no model 'olmo'; {MODELS}",
    "x.model like 'pythia%'": f"no model matches 'pythia%'; {MODELS}",
}
FITTING = """model = 'bert | gpt2' OR model IN ('bert', 'gpt2') OR base_model = 'olmo' OR corpus = 'olmo'
OR model LIKE 'b%' AND model NOT LIKE '%(%' AND model <> 'olmo'"""


def test_a_query_about_a_model_that_is_not_there_is_found():
    text = "study: s\nmodels: {bert: bert-base, gpt2: gpt2}\ncorpora: {c: {texts: [a]}}\n"
    text += 'claims: {q: {says: x, value: {sql: "SELECT value FROM layer_metrics WHERE %s"}, below: 1}}\n'
    for condition, message in CONDITIONS.items():
        problem = the_problem("s.yaml", text % condition.replace('"', '\\"'))
        assert (problem.line, problem.where, problem.message) == (4, "claims.q.value.sql", message)
    Path("s.yaml").write_text(text % FITTING)
    assert read_study(Path("s.yaml")).study.claims
