"""``reporter look``: the study that it writes, its cards, and what it says where a model or text is missing."""

import json
import random
import re
from pathlib import Path

import duckdb
import pytest
from oracles.damages import damaged
from oracles.families import WORDS, build_language_model
from transformers import AutoModel, AutoTokenizer
from typer.testing import CliRunner

from reporter.app.cli import app
from reporter.app.look.study import write_study
from reporter.core.errors import UsageError
from reporter.runs.studies import read_study
from reporter.store import Store

RNG = random.Random(0)
TEXTS = "\n\n".join(" ".join(RNG.choices(WORDS, k=12)) for _ in range(30))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    build_language_model("llama", folder / "decoder")
    build_language_model("bert", folder / "encoder")
    damaged(folder / "decoder", folder / "copy", "noised by a fifth", 2)
    return folder


@pytest.fixture
def look(tmp_path, monkeypatch, models):
    """Call the command in a folder that holds the models ``decoder``, ``copy`` and ``encoder``, and ``notes.txt``."""
    monkeypatch.chdir(tmp_path)
    for model in models.iterdir():
        Path(model.name).symlink_to(model)
    Path("notes.txt").write_text(TEXTS)
    return lambda *arguments: CliRunner().invoke(app, ["look", *arguments], prog_name="reporter")


def test_a_model_gets_a_study_a_card_and_a_report(look, monkeypatch):
    result = look("decoder", "--text", "notes.txt", "--card", "card.md")
    assert result.exit_code == 0, result.output
    labels = ["model", "anisotropy", "dimension", "entropy", "sinks", "range", "vectors", "blocks", "measured on"]
    lines = result.stdout.splitlines()
    assert [line.strip().split("  ")[0] for line in lines if line.startswith("  ") and line[2] != " "] == labels
    assert "decoder (llama), " in result.stdout
    for name in ("results/look-decoder-notes/index.html", "look/decoder-notes.yaml", "card.md"):
        assert name in result.stdout and Path(name).is_file()
    card = Path("card.md").read_text("utf-8")
    assert (
        card.startswith("<!-- checksum ")
        and "\n## Layer card: decoder\n" in card
        and all(f"\n| {label} | " in card for label in labels)
    )
    (found,) = Store(Path("results/results.duckdb")).records(
        "SELECT arg_max(layer, value) FILTER (statistic = 'mean_cosine' AND site <> 'final') AS highest, "
        "max(value) FILTER (metric = 'ranges' AND statistic = 'int8_tensor') AS lost FROM layers "
        "WHERE is_last AND view = 'text tokens'"
    )
    where = f"layer {found['highest']} of" if found["highest"] else "the embedding"
    assert f"| anisotropy | mean cosine of two tokens is highest at {where}" in card
    lost = re.search(r"\| range \| the largest activation is .* INT8 loses ([0-9.]+) % of a", card)[1]
    assert lost == f"{100 * found['lost']:.2g}"
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    again = look("decoder", "--text", "notes.txt", "--open")
    assert opened == [Path("results/look-decoder-notes/index.html").resolve().as_uri()]
    assert "no browser opens" in again.stderr and "nothing to compute" in again.stderr
    assert again.stdout.count("\n") == result.stdout.count("\n") - 1


def test_a_copy_is_compared_with_its_base_and_the_card_says_why_something_is_not_measured(look, bare_runs):
    AutoModel.from_pretrained("encoder").save_pretrained("headless")
    AutoTokenizer.from_pretrained("encoder").save_pretrained("headless")
    metrics = {
        pair: {asked.name for asked in read_study(write_study([pair[0]], pair[1], "notes.txt").path).study.metrics}
        for pair in (("copy", "decoder"), ("headless", "encoder"))
    }
    assert {pair: {"change", "divergence", "loss"} & set(asked) for pair, asked in metrics.items()} == {
        ("copy", "decoder"): {"change", "divergence", "loss"},
        ("headless", "encoder"): {"change"},
    }
    kinds = [{"type": "a.Transformer", "path": ""}, {"type": "a.Pooling", "path": "1_Pooling"}]
    Path("headless/modules.json").write_text(json.dumps(kinds))
    Path("headless/sentence_bert_config.json").write_text('{"max_seq_length": 4}')
    with bare_runs(answers=True):
        copied = look("copy", "--base", "decoder", "--text", "notes.txt")
        ran = look("headless", "--text", "notes.txt")
    planned = CliRunner().invoke(app, ["plan", "look/headless-notes.yaml"])
    assert all("sentence-transformers cuts texts at 4 tokens" in output for output in (ran.stderr, planned.stdout))
    headless = " ".join(ran.stdout.split())
    assert copied.exit_code == 0, copied.output
    line = " ".join(copied.stdout.split("against decoder")[1].split("measured on")[0].split())
    assert "layer 2" in line and "States differ from the base" in line
    assert "is unknown (its files have no language-model head)" in headless


def test_the_study_is_for_people_to_edit(look):
    path = write_study(["decoder", "encoder"], text="notes.txt").path
    study = read_study(path).study
    assert list(study.models) == ["decoder", "encoder"] and list(study.corpora) == ["notes"]
    assert (path.parent / study.models["decoder"].path).resolve() == Path("decoder").resolve()
    assert write_study(["decoder", "encoder"], text="notes.txt").path == path
    path.write_text(path.read_text("utf-8").replace("limit: 102", "limit: 15"), "utf-8")
    result = look("decoder", "encoder", "--text", "notes.txt")
    assert result.exit_code == 2 and "was edited" in result.stderr and f"`reporter run {path}`" in result.stderr
    assert read_study(path).study.corpora["notes"].limit == 15


def test_a_table_is_read_alike_however_it_is_named_and_its_evident_label_is_used(look, bare_runs):
    rows = [
        f"text number {i},{['joy', 'fear', 'anger'][i % 3]},{i},{'ab'[i % 2] if i < 20 else ''}" for i in range(120)
    ]
    Path("moods.csv").write_text("\n".join(["text,emotion,id,half", *rows]))
    plain = write_study(["decoder"], text="moods.csv")
    mapped = write_study(["decoder"], text="{file: moods.csv}")
    full = write_study(["decoder"], text="{file: moods.csv, column: text, label: emotion}")
    assert plain.path == mapped.path == full.path and plain.text == mapped.text == full.text
    corpus = plain.study.corpora["moods"]
    assert (corpus.column, corpus.label, corpus.limit) == ("text", "emotion", 102)
    assert plain.notes == mapped.notes == ("label: emotion (3 classes)",) and full.notes == ()
    assert plain.study.sections["probes"]["emotion"].corpus == "moods"
    other = write_study(["decoder"], text="moods.csv", label="half", limit=30).study.corpora["moods"]
    assert (other.label, other.limit) == ("half", 30)
    several = [f"{i},x y {i},{'ab'[i % 2]},{'cde'[i % 3]}" for i in range(40)]
    for header, label in (("id,text,kind,group", None), ("id,text,kind,Label", "Label"), ("id,text,kind,kind2", None)):
        Path("two.csv").write_text("\n".join([header, *several]))
        assert write_study(["decoder"], text="two.csv").study.corpora["two"].label == label, header
    with duckdb.connect("moods.duckdb") as database:
        database.execute("CREATE TABLE t AS SELECT [1] AS nested, * FROM read_csv('moods.csv')")
    table = duckdb.read_csv("moods.csv").fetchall()
    objects = [dict(zip(("text", "emotion", "id"), row[:3], strict=True)) | {"nested": {}} for row in table]
    Path("moods.jsonl").write_text("\n".join(map(json.dumps, [{"text": "the first has no label"}, *objects])))
    for name in ("moods.duckdb", "moods.jsonl"):
        assert write_study(["decoder"], text=name).notes == plain.notes, name
    for text in ("{file: moods.csv, limit: many}", "{file: moods.csv, limit: 0}", "{file: moods.csv, limit: 7.5}"):
        with pytest.raises(UsageError, match=r"limit: (expected a whole number|must be at least 1)"):
            write_study(["decoder"], text=text)
    with pytest.raises(UsageError, match="must be at least 1"):
        write_study(["decoder"], text="moods.csv", limit=0)
    with bare_runs(answers=True):
        result = look("decoder", "--text", "moods.csv", "--limit", "36")
    assert result.exit_code == 0, result.output
    assert "36 of 120 texts of moods" in result.stdout and "label: emotion (3 classes)" in result.stderr


def test_models_of_the_same_name_have_studies_of_their_own_and_read_the_sample_without_a_text(look):
    for folder in ("a", "b"):
        Path(folder).mkdir()
        Path(folder, "final").symlink_to(Path("decoder").resolve())
    files = [write_study([model], text="notes.txt").path.name for model in ("a/final", "b/final", "a/final")]
    assert files[0] == files[2] != files[1]
    study = write_study(["decoder"]).study
    assert study.corpora["sample"].sample == "english" and study.pooling == "auto"
    assert study.sections["partners"]["halves"].halves == "sample"


def test_a_model_is_named_in_any_way(look, monkeypatch):
    Path("adapter").mkdir()
    Path("adapter/adapter_config.json").write_text('{"base_model_name_or_path": "decoder"}')
    Path("adapter/adapter_model.safetensors").touch()
    monkeypatch.setattr("reporter.runs.studies.check_installed", lambda *names: None)
    monkeypatch.setattr("reporter.runs.planner.check_hub", lambda *arguments: None)
    for model, keys in (
        ("owner/name", {"hub": "owner/name"}),
        ("gpt2", {"hub": "gpt2"}),
        ("./decoder", {"path": Path("../decoder")}),
        ("adapter", {"path": Path("../decoder"), "adapter": Path("../adapter"), "base": "decoder"}),
    ):
        *_, last = write_study([model]).study.models.values()
        assert {name: getattr(last, name) for name in keys} == keys


def test_a_mistake_is_one_line_and_leaves_nothing(look):
    build_language_model("llama", Path("narrow"), hidden_size=16)
    Path("empty").mkdir()
    files = {"broken/config.json": "{", "nameless/adapter_config.json": "{}", "table.csv": "a,b\n1,2\n"}
    for file, text in files.items():
        Path(file).parent.mkdir(exist_ok=True)
        Path(file).write_text(text)
    for arguments, says in (
        (["./decoderr"], "./decoderr is not a folder, a file or a hub id; did you mean 'decoder'?"),
        (["nowhere.gguf"], "nowhere.gguf is not a folder, a file or a hub id"),
        (["empty"], "empty has no config.json"),
        (["notes.txt"], "notes.txt is a file; name a folder with config.json"),
        (["decoder", "--text", "note.txt"], "did you mean 'notes.txt'?"),
        (["decoder", "--text", "{fil: notes.txt}"], "unknown"),
        (["decoder", "--text", "{file: notes.txt"], "--text {file: notes.txt: the mapping that '{' opens"),
        (["decoder", "--text", "empty"], ".txt"),
        (["decoder", "--text", "table.csv"], "column: NAME"),
        (["decoder", "--base", "decoder"], "decoder is its own base"),
        (["nameless"], "add --base MODEL"),
        (["decoder", "--card", "no/card.md"], "there is no folder no"),
        (["decoder", "--card", "empty"], "empty is a folder; name a new file"),
        (["broken"], "broken/config.json: Expecting property name"),
        (["decoder", "--base", "narrow"], "decoder have 32 dimensions, those of the base narrow 16"),
        (["owner/nowhere", "--offline"], "there is no folder owner/nowhere here"),  # of the hub
    ):
        result = look(*arguments)
        assert result.exit_code == (1 if "--offline" in arguments else 2)
        assert says in result.stderr and result.stderr.count("\n") == 1
        assert not Path("look").exists() and not Path("results").exists()
