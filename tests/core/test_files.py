"""What never ends, and what is larger than anybody means, is told in time wherever a study may name a file."""

import gzip
import os
import resource
import signal
from pathlib import Path

import duckdb
import pytest

from reporter.core.errors import ReporterError
from reporter.core.files import LONGEST_TEXT, MOST_OF_A_STUDY
from reporter.core.json_text import read_json, require_json
from reporter.metrics._items import read_list
from reporter.models.model_folder import config_file
from reporter.models.resolve import resolve
from reporter.runs.studies import offer
from reporter.study import SpecError, load_study
from reporter.study.models import StatesModel
from reporter.texts import build_texts
from reporter.texts.sources.stored import FileCorpus


@pytest.fixture(autouse=True)
def patience():
    """A test that waits at a pipe fails instead of hanging."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waited"))
    signal.alarm(30)
    yield
    signal.alarm(0)


def pipe(path):
    os.mkfifo(path)
    return path


@pytest.fixture
def refused(tmp_path):
    """Return a function that expects a corpus to be refused with this message."""

    def run(message, file, **options):
        column = {} if ".txt" in file or "/" in file or options else {"column": "text"}
        with pytest.raises(ReporterError, match=rf"^corpus 'mine': .*{message}"):
            build_texts("mine", FileCorpus(file=file, **column, **options), tmp_path, tmp_path / "cache")

    return run


@pytest.mark.parametrize("name", ["t.txt", "t.csv", "t.jsonl", "t.json", "t.parquet", "t.txt.gz"])
def test_a_corpus_that_is_a_pipe_or_a_device(tmp_path, refused, name):
    pipe(tmp_path / name)
    refused(f"{name} is a pipe, which may never end", name)
    refused("is a device, which may never end", "/dev/zero")


@pytest.mark.parametrize("name", ["one.txt.gz", "one.csv.gz", "one.jsonl.gz", "one.json.gz"])
def test_a_small_file_that_holds_one_huge_line(tmp_path, refused, name):
    with gzip.open(tmp_path / name, "wb", compresslevel=1) as file:
        file.writelines([b"a" * 2**20] * 300)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    whole_line = f"{name}:1: this line has more than 16,777,216 bytes"
    refused("json.gz: line 1: invalid JSON" if name == "one.json.gz" else whole_line, name)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000  # KiB


def test_lines_that_make_one_huge_text_and_a_value_that_is_none(tmp_path, refused):
    lines = ("words " * 2000 + "\n") * (LONGEST_TEXT // 10_000)
    (tmp_path / "wide.txt").write_text(lines)
    (tmp_path / "quote.csv").write_text('text\n"' + lines)
    duckdb.sql(f"COPY (SELECT repeat('ab ', {LONGEST_TEXT // 3 + 9}) AS text) TO '{tmp_path}/one.parquet'")
    refused("a paragraph has more than 16,777,216 characters; choose another `unit`", "wide.txt", unit="paragraph")
    refused("a document has more than", "wide.txt", unit="document")
    refused(r"quote.csv:\d+: .*field larger than field limit", "quote.csv")
    refused("text 1 of the kept texts has more than", "one.parquet")


def test_a_study_that_is_none(tmp_path):
    kinds = {pipe(tmp_path / "s.yaml"): "is a pipe", Path("/dev/zero"): "is a device", tmp_path: "is a folder"}
    (tmp_path / "long.yaml").write_bytes(b"#" * (MOST_OF_A_STUDY + 1))
    (tmp_path / "heir.yaml").write_text("extends: ./s.yaml\nstudy: heir\n")
    (tmp_path / "round.yaml").symlink_to("round.yaml")
    kinds[tmp_path / "long.yaml"] = "has 16,777,217 bytes, but the limit is 16,777,216"
    kinds |= {tmp_path / "none.yaml": "there is no such file", tmp_path / "round.yaml": ""}
    kinds[tmp_path / "heir.yaml"] = "1:10: extends: is a pipe"
    for path, says in kinds.items():
        with pytest.raises(SpecError, match=rf"^{path}: ?{says}[^\n]*\Z"):
            load_study(path, offer())
    with pytest.raises(SpecError, match="is a pipe"):
        read_list(tmp_path / "s.yaml", "noun: [cat]", dict)


def test_a_model_folder_with_what_never_ends(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    for file, make, says in (
        ("tokenizer_config.json", pipe, "is a pipe"),
        ("model.safetensors", lambda path: path.symlink_to("/dev/zero"), "is a device"),
        ("config.json", lambda path: path.write_bytes(b"[" * (MOST_OF_A_STUDY + 1)), "has 16,777,217 bytes"),
    ):
        make(tmp_path / file)
        with pytest.raises(ReporterError, match=f"{file} {says}"):
            config_file(tmp_path)
        (tmp_path / file).unlink()
    said = StatesModel(states={"wiki": pipe(tmp_path / "big.safetensors").name})
    with pytest.raises(ReporterError, match="is a pipe"):
        resolve("big", said, tmp_path, tmp_path / "cache", texts=lambda name: None, offline=True)  # type: ignore[arg-type,return-value]


def test_a_source_that_cannot_be_read_is_not_one_that_cannot_be_written(tmp_path, refused):
    (tmp_path / "loop.txt").symlink_to(tmp_path / "loop.txt")
    refused("loop.txt", "loop.txt")
    refused("cannot read", "x" * 300 + ".txt")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"a": ' + "[" * 99 + "]" * 99 + "}", None),
        ('{"a": ' + "[" * 100 + "]" * 100 + "}", "lists and mappings are nested more than 100 deep"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "lists and mappings are nested more than 100 deep"),
        ('{"a": ' + "1" * 5000 + "}", "Exceeds the limit"),
        ('{"a": "' + "[" * 1000 + '"}', None),
        ("[]", "it is no JSON object"),
        ("", "Expecting value"),
        ("\udcff", "can't decode byte"),
    ],
)
def test_json_of_other_people(tmp_path, content, problem):
    file = tmp_path / "config.json"
    file.write_text(content, "utf-8", errors="surrogateescape")
    assert (read_json(file) is None) == (problem is not None)
    if problem is not None:
        with pytest.raises(ReporterError, match=f"cannot read .*config.json: .*{problem}.*; download it again"):
            require_json(file, "download it again")
