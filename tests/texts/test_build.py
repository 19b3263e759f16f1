from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reporter.core.errors import ReporterError
from reporter.core.files import unfinished_folder
from reporter.spec.corpora import with_shares
from reporter.texts import build
from reporter.texts.sources import generated
from reporter.texts.sources import stored as inline
from reporter.texts.sources.generated import GeneratedCorpus
from reporter.texts.sources.stored import FileCorpus, InlineCorpus
from reporter.texts.texts import Record


def folders(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache" / "texts").iterdir())


@pytest.fixture
def count_writes(monkeypatch):
    written = []
    write = build._write
    monkeypatch.setattr(build, "_write", lambda *args: (written.append(args), write(*args)))
    return written


def test_filters_limit_and_counts(build):
    texts = build(
        InlineCorpus(
            texts=("", "  one ", "\n\t", "a b", "a b c d", "é e\n", "a b c", "too late"),
            min_words=2,
            max_words=3,
            limit=3,
        )
    )
    assert list(texts) == ["a b", "é e", "a b c"]
    assert (texts.words, texts.characters, texts.dropped) == (7, 11, 4)  # "too late" was never read
    assert (texts.name, texts.source, texts.labels) == ("mine", "inline", None)


def test_an_empty_corpus_says_what_was_read_and_why_nothing_is_left(build, tmp_path):
    spec = InlineCorpus(texts=("", "one", "one two three four"), min_words=2, max_words=3)
    with pytest.raises(ReporterError) as error:
        build(spec, "small")
    assert str(error.value) == (
        "corpus 'small': no text is left of the study file: read 3 texts: "
        "1 empty, 1 shorter than min_words, 1 longer than max_words"
    )
    assert folders(tmp_path) == []


def test_texts_are_built_once_and_found_again(build, count_writes, tmp_path):
    spec = GeneratedCorpus(generate="grammar", texts=5)
    first = build(spec, "one")
    again = build(spec.model_copy(update={"max_tokens": 7}), "two")
    assert len(count_writes) == 1
    assert (again.name, again.hash, list(again)) == ("two", first.hash, list(first))
    assert folders(tmp_path) == [first.folder.name]


@pytest.mark.parametrize("change", [{"seed": 1}, {"texts": 4}, {"words": (3, 9)}, {"limit": 2}, {"min_words": 20}])
def test_whatever_changes_the_texts_changes_the_key(build, change):
    spec = GeneratedCorpus(generate="grammar", texts=5)
    assert build(spec).folder != build(spec.model_copy(update=change)).folder


def test_an_edited_file_is_read_again(build, tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("one\n")
    assert list(build(FileCorpus(file="a.txt"))) == ["one"]
    file.write_text("two\n")
    assert list(build(FileCorpus(file="a.txt"))) == ["two"]


@pytest.mark.parametrize("generator", ["grammar", "random-words"])
def test_another_version_of_a_generator_gives_another_key(build, monkeypatch, generator):
    spec = GeneratedCorpus(generate=generator, texts=3)
    before = build(spec).folder
    monkeypatch.setattr(generated, f"{generator.replace('-', '_').upper()}_VERSION", -1)
    assert build(spec).folder != before


def test_use_is_noted_for_the_cache(build):
    spec = InlineCorpus(texts=("one",))
    folder = build(spec).folder
    os.utime(folder, (1, 1))
    build(spec)
    assert folder.stat().st_mtime > time.time() - 3600


@pytest.mark.parametrize("file", ["texts.bin", "offsets.npy", "meta.json"])
@pytest.mark.parametrize("damage", ["cut", "removed"])
def test_a_damaged_folder_is_built_again(build, file, damage):
    spec = InlineCorpus(texts=("one two", "three"))
    path = build(spec).folder / file
    path.write_bytes(path.read_bytes()[:-3])
    if damage == "removed":
        path.unlink()
    assert list(build(spec)) == ["one two", "three"]


def test_an_exception_half_way_leaves_nothing(build, tmp_path, monkeypatch):
    def broken(texts):
        yield Record("one")
        raise KeyboardInterrupt

    spec = InlineCorpus(texts=("one", "two"))
    with monkeypatch.context() as patch:
        patch.setattr(inline, "read_inline", broken)
        with pytest.raises(KeyboardInterrupt):
            build(spec)
    assert folders(tmp_path) == []
    assert list(build(spec)) == ["one", "two"]


def test_a_killed_build_leaves_no_finished_folder(build, tmp_path):
    code = f"""
import os, signal
from pathlib import Path
from reporter.texts.sources.stored import InlineCorpus
from reporter.texts import build_texts
from reporter.texts.sources import stored as inline
from reporter.texts.texts import Record
def killed(texts):
    yield from (Record("a text") for _ in range(100_000))
    os.kill(os.getpid(), signal.SIGKILL)
inline.read_inline = killed
folder = Path({str(tmp_path)!r})
build_texts("mine", InlineCorpus(texts=("one", "two")), folder, folder / "cache")
"""
    ended = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=False)
    assert ended.returncode == -signal.SIGKILL
    left = folders(tmp_path)
    assert len(left) == 2 and all(name.startswith("unfinished-") for name in left)  # the folder and its lock
    assert list(build(InlineCorpus(texts=("one", "two")))) == ["one", "two"]
    assert not set(left) & set(folders(tmp_path))  # whoever builds next clears up


def test_what_a_living_process_builds_is_left_alone(tmp_path):
    with unfinished_folder(tmp_path) as one, unfinished_folder(tmp_path) as other:
        assert one.is_dir() and other.is_dir()
    assert not [*tmp_path.iterdir()]


def test_a_folder_that_another_process_finished_first_is_kept(build, monkeypatch):
    spec = InlineCorpus(texts=("one", "two"))

    def slow(texts):
        yield from map(Record, texts)
        with monkeypatch.context() as patch:
            patch.setattr(inline, "read_inline", lambda texts: map(Record, texts))
            build(spec)

    monkeypatch.setattr(inline, "read_inline", slow)
    assert list(build(spec)) == ["one", "two"]


def test_a_cache_that_cannot_be_written_is_a_plain_error(build, tmp_path):
    (tmp_path / "cache").write_text("a file where a folder should be")
    with pytest.raises(ReporterError, match=r"corpus 'mine': cannot write its texts to .*cache/texts"):
        build(InlineCorpus(texts=("one",)))


def test_nothing_is_printed(build, capfd):
    build(GeneratedCorpus(generate="random-words", texts=3))
    assert capfd.readouterr() == ("", "")


def test_random_words_of_a_model(build):
    spec = GeneratedCorpus(generate="random-words", texts=20, words=(5, 9), vocabulary="pocket")
    texts = build(spec, whole_words={"pocket": ["ant", "bee"]}.__getitem__)
    assert {word for text in texts for word in text.split()} == {"ant", "bee"}
    assert texts.location == "random-words, seed 0, words of pocket"
    other = build(spec, whole_words={"pocket": ["ant", "cow"]}.__getitem__)
    assert other.folder != texts.folder
    with pytest.raises(ReporterError, match="corpus 'mine': there are no words to draw from"):
        build(spec, whole_words={"pocket": []}.__getitem__)
    with pytest.raises(ReporterError, match="corpus 'mine': the words of model 'pocket' are not at hand"):
        build(spec)


def test_generating_texts_imports_nothing_heavy(tmp_path):
    code = f"""
import sys
from pathlib import Path
from reporter.texts.sources.generated import GeneratedCorpus
from reporter.texts import build_texts
folder = Path({str(tmp_path)!r})
build_texts("mine", GeneratedCorpus(generate="grammar", texts=3), folder, folder / "cache")
assert not {{"torch", "transformers", "pandas", "duckdb", "datasets"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=True)


def test_only_some_labels(build, tmp_path):
    (tmp_path / "t.csv").write_text("text,mood\na b,joy\nc d,fear\ne f,joy\n")
    joy = build(FileCorpus(file=Path("t.csv"), column="text", label="mood", only=("joy",)))
    assert (list(joy), joy.labels, joy.dropped) == (["a b", "e f"], ("joy",), 1)
    with pytest.raises(ReporterError, match=r"read 3 texts: 3 with another label"):
        build(FileCorpus(file=Path("t.csv"), column="text", label="mood", only=("anger",)), "none")


def test_shares_are_the_same_texts_as_only_one_label(build, tmp_path):
    (tmp_path / "t.csv").write_text("text,mood\na b,joy\nc d,fear\ne f,joy\ng h,so so\n")
    whole = FileCorpus(file=Path("t.csv"), column="text", label="mood", by=("joy", "so so"))
    plain = FileCorpus(file=Path("t.csv"), column="text", label="mood")
    corpora = with_shares({"t": whole})
    assert list(corpora) == ["t", "t.joy", "t.so-so"]
    assert [list(build(part, name)) for name, part in corpora.items()] == [
        ["a b", "c d", "e f", "g h"],
        ["a b", "e f"],
        ["g h"],
    ]
    assert build(whole, "t").folder == build(plain, "t").folder  # naming shares reads nothing anew


def test_shares_of_a_chat_are_those_of_its_roles():
    chat = FileCorpus(file=Path("t.jsonl"), chat=True, by=("user", "assistant"), limit=5)
    shares = with_shares({"talk": chat})
    said = [(name, part.role, part.only, part.by, part.limit) for name, part in list(shares.items())[1:]]
    assert said == [("talk.user", "user", None, (), 5), ("talk.assistant", "assistant", None, (), 5)]
