"""What never ends, and what is larger than anybody means, is told in time wherever a study may name a file."""

import gzip
import os
import resource
import shutil
import signal
from pathlib import Path

import pytest

from reporter.core.errors import ReporterError
from reporter.core.files import LONGEST_TEXT, MOST_OF_A_STUDY, endless
from reporter.metrics._items import read_list
from reporter.models.model_folder import config_file
from reporter.models.resolve import resolve
from reporter.runs.studies import offer
from reporter.spec import SpecError, load_study
from reporter.spec.models import StatesModel
from reporter.texts import build_texts
from reporter.texts.sources.stored import FileCorpus


@pytest.fixture(autouse=True)
def patience():
    """A test that waits at a pipe fails instead of hanging."""

    def give_up(*_):
        raise AssertionError("it waited")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def pipe(path):
    os.mkfifo(path)
    return path


def build(folder, **said):
    build_texts("mine", FileCorpus(**said), folder, folder / "cache")


@pytest.mark.parametrize("name", ["t.txt", "t.csv", "t.jsonl", "t.json", "t.parquet", "t.txt.gz"])
def test_a_corpus_that_is_a_pipe(tmp_path, name):
    pipe(tmp_path / name)
    column = {} if ".txt" in name else {"column": "text"}
    with pytest.raises(ReporterError, match=rf"corpus 'mine': .*{name} is a pipe, which may never end"):
        build(tmp_path, file=name, **column)


@pytest.mark.parametrize(("name", "said"), [("/dev/zero", "is a device, which may never end"), (".", "is a folder")])
def test_a_corpus_that_is_a_device_or_a_folder(tmp_path, name, said):
    with pytest.raises(ReporterError, match=said):
        build(tmp_path, file=name)


@pytest.mark.parametrize("name", ["one.txt.gz", "one.csv.gz", "one.jsonl.gz", "one.json.gz"])
def test_a_small_file_that_holds_one_huge_line(tmp_path, name):
    by_duckdb = name == "one.json.gz"
    said = "json.gz: .*maximum_object_size" if by_duckdb else f"{name}:1: this line has more than 16,777,216 bytes"
    with gzip.open(tmp_path / name, "wb", compresslevel=1) as file:
        for _ in range(300):
            file.write(b"a" * 2**20)
    column = {} if ".txt" in name else {"column": "text"}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ReporterError, match=said):
        build(tmp_path, file=name, limit=1, **column)
    if not by_duckdb:  # whose buffers are its own, and bounded by it
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000  # KiB


@pytest.mark.parametrize(
    ("name", "said", "message"),
    [
        ("wide.txt", {"unit": "paragraph"}, "a paragraph has more than 16,777,216 characters; choose another `unit`"),
        ("wide.txt", {"unit": "document"}, "a document has more than"),
        ("quote.csv", {"column": "text"}, r"quote.csv:\d+: .*field larger than field limit"),
    ],
)
def test_lines_that_make_one_huge_text(tmp_path, name, said, message):
    start = 'text\n"' if name.endswith("csv") else ""
    (tmp_path / name).write_text(start + ("words " * 2000 + "\n") * (LONGEST_TEXT // 10_000))
    with pytest.raises(ReporterError, match=message):
        build(tmp_path, file=name, **said)


def test_a_text_of_a_megabyte_is_one(tmp_path):
    (tmp_path / "long.txt").write_text("word " * 200_000 + "\nshort one\n")
    texts = build_texts("mine", FileCorpus(file="long.txt"), tmp_path, tmp_path / "cache")
    assert [len(text) for text in texts] == [999_999, 9]


def test_a_value_of_a_table_that_is_no_text(tmp_path):
    import duckdb

    out = str(tmp_path / "one.parquet")
    duckdb.sql(f"COPY (SELECT repeat('ab ', {LONGEST_TEXT // 3 + 9}) AS text) TO '{out}'")
    with pytest.raises(ReporterError, match="text 1 of the kept texts has more than"):
        build(tmp_path, file="one.parquet", column="text")


def test_a_study_that_is_none(tmp_path):
    for path, said in (
        (pipe(tmp_path / "s.yaml"), "is a pipe"),
        (Path("/dev/zero"), "is a device"),
        (tmp_path, "is a folder"),
    ):
        with pytest.raises(SpecError, match=said):
            load_study(path, offer())
    (tmp_path / "long.yaml").write_bytes(b"#" * (MOST_OF_A_STUDY + 1))
    with pytest.raises(SpecError, match="has 16,777,217 bytes, but the limit is 16,777,216"):
        load_study(tmp_path / "long.yaml", offer())
    (tmp_path / "heir.yaml").write_text("extends: ./s.yaml\nstudy: heir\n")
    with pytest.raises(SpecError, match=r"heir.yaml:1:10: extends: is a pipe"):
        load_study(tmp_path / "heir.yaml", offer())


def test_a_list_that_is_a_pipe(tmp_path):
    with pytest.raises(SpecError, match="is a pipe"):
        read_list(pipe(tmp_path / "words.yaml"), "noun: [cat]", dict)


def test_a_model_folder_with_what_never_ends(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    pipe(tmp_path / "tokenizer_config.json")
    with pytest.raises(ReporterError, match=r"tokenizer_config.json is a pipe"):
        config_file(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / "model.safetensors").symlink_to("/dev/zero")
    with pytest.raises(ReporterError, match=r"model.safetensors is a device"):
        config_file(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "config.json").write_bytes(b"[" * (MOST_OF_A_STUDY + 1))
    with pytest.raises(ReporterError, match=r"config.json has 16,777,217 bytes"):
        config_file(tmp_path)


def test_states_that_are_a_pipe(tmp_path):
    pipe(tmp_path / "big.safetensors")
    said = StatesModel(states={"wiki": "big.safetensors"})
    with pytest.raises(ReporterError, match="is a pipe"):
        resolve("big", said, tmp_path, tmp_path / "cache", texts=lambda name: None, offline=True)  # type: ignore[arg-type,return-value]


def test_what_is_not_there_and_what_is_usual_is_for_others_to_say(tmp_path):
    (tmp_path / "a").write_text("a")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert [endless(tmp_path / name) for name in ("a", "b", "loop", "a\0b")] == [None] * 4


def test_a_source_that_cannot_be_read_is_not_one_that_cannot_be_written(tmp_path):
    (tmp_path / "loop.txt").symlink_to(tmp_path / "loop.txt")
    with pytest.raises(ReporterError) as caught:
        build(tmp_path, file="loop.txt")
    assert "write" not in str(caught.value)
    with pytest.raises(ReporterError, match=r"corpus 'mine': cannot read") as caught:
        build(tmp_path, file="x" * 300 + ".txt")
    (tmp_path / "a.txt").write_text("a text\n")
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    (tmp_path / "cache").write_text("")
    with pytest.raises(ReporterError, match="cannot write its texts"):
        build(tmp_path, file="a.txt")
