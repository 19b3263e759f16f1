import sys
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from reporter.texts.sources.stored import DatasetCorpus

CLASSES = SimpleNamespace(names=("neg", "pos"), int2str=lambda value: ("neg", "pos")[value])


class Rows:
    """As much of a ``datasets.Dataset`` as is used; ``read`` notes what is taken from it."""

    def __init__(self, columns, read=None):
        self.columns, self.read = columns, [] if read is None else read
        self.features = {name: CLASSES if name == "label" else object() for name in columns}
        self.column_names = list(columns)

    def select_columns(self, names):
        return Rows({name: self.columns[name] for name in names}, self.read)

    def iter(self, batch_size):
        for start in range(0, len(next(iter(self.columns.values()))), batch_size):
            part = slice(start, start + batch_size)
            self.read.append((part.start, part.stop, list(self.columns)))
            yield {name: values[part] for name, values in self.columns.items()}


@pytest.fixture
def hub(monkeypatch):
    """Put a small ``datasets`` package in place, whose ``load_dataset`` returns ``hub.rows``."""
    package = Mock(calls=[], config=SimpleNamespace(HF_HUB_OFFLINE=False))
    package.rows = Rows({"text": ["a b", None, " c "], "label": [1, 0, -1], "id": [1, 2, 3]})
    package.are_progress_bars_disabled.return_value = False

    def load_dataset(*args, **options):
        package.calls.append((args, options, package.config.HF_HUB_OFFLINE))
        if isinstance(package.rows, Exception):
            raise package.rows
        return package.rows

    package.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", package)
    return package


def spec(dataset="org/set", **options):
    return DatasetCorpus(dataset=dataset, **options)


def test_a_split_with_class_labels_numbers_as_labels_and_one_column_for_both(build, hub):
    texts = build(spec(config="raw", split="train", revision="v1", label="label"))
    assert list(texts) == ["a b", "c"]
    assert [texts.label(0), texts.label(1), texts.labels, texts.dropped] == ["pos", None, ("pos",), 1]
    assert (texts.source, texts.location) == ("dataset", "org/set/raw/train@v1")
    assert hub.calls == [(("org/set", "raw"), {"split": "train", "revision": "v1", "streaming": False}, False)]
    assert hub.rows.read == [(0, 1024, ["text", "label"])]  # other columns are not read
    assert [call[0] for call in hub.mock_calls[-2:]] == ["disable_progress_bars", "enable_progress_bars"]
    assert [build(spec(label=column)).labels for column in ("id", "text")] == [("1", "3"), ("a b", "c")]


def test_what_was_fetched_is_found_again_without_the_package(build, hub, refused, monkeypatch):
    before = build(spec())
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert build(spec(), offline=True).hash == before.hash
    refused(r"'org/set' .*optional package .*'layer-reporter\[datasets\]'$", spec(revision="v2"))


def test_rows_come_in_batches_and_no_more_than_the_limit_needs(build, hub):
    hub.rows = Rows({"text": [f"text {i}" for i in range(2500)]})
    assert list(build(spec())) == hub.rows.columns["text"] and len(build(spec(limit=5))) == 5
    assert [start for start, _, _ in hub.rows.read] == [0, 1024, 2048, 0]


def test_columns_are_checked_and_what_the_package_says_is_passed_on(hub, refused):
    says = r"'org/set', split 'test', has no column 'txt' .*did you mean 'text'\? Columns: text,"
    refused(says, spec(column="txt"))
    refused(r"has no column 'lable' for `label`; did you mean 'label'\?", spec(label="lable"))
    refused("row 0: the column 'id' must hold text, got int", spec(column="id"))
    hub.rows = Rows({"text": ["a", "b"], "tags": ["x", ["y"]]})
    refused("'org/set', split 'test', row 1: the label 'tags' must be one value, got a list", spec(label="tags"))
    hub.rows = ValueError("Unknown split \"test\". Should be one of ['train'].")
    refused("cannot load dataset 'org/set': Unknown split \"test\".*; check `dataset`", spec())


def test_offline_asks_nobody_and_says_so(hub, refused):
    from huggingface_hub import constants

    hub.rows = ConnectionError("Couldn't reach 'org/set' on the Hub\nand more")
    refused(r"'org/set' .* offline; .*without --offline \(Couldn't reach 'org/set' on the Hub\)$", spec(), offline=True)
    assert [offline for *_, offline in hub.calls] == [True]
    assert not hub.config.HF_HUB_OFFLINE and constants.HF_HUB_OFFLINE in (False, None)


def test_a_local_folder_is_read_from_the_studys_folder_and_again_when_it_changes(build, hub, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/test.csv").write_text("text\na\n")
    first = build(spec("./mine"))
    assert hub.calls[0][0] == (str(tmp_path / "mine"), None)
    assert build(spec("./mine")).folder == first.folder and len(hub.calls) == 1
    (tmp_path / "mine/test.csv").rename(tmp_path / "mine/train.csv")
    assert build(spec("./mine")).folder != first.folder


def test_a_share_by_label_and_a_stream_of_a_real_dataset(build, refused, tmp_path):
    """Reads a local file with the real package, once whole and once as a stream; skipped where it is not installed."""
    pytest.importorskip("datasets")
    (tmp_path / "set").mkdir()
    (tmp_path / "set/train.csv").write_text("text,mood\ngood day,joy\noh no,fear\nwell done,joy\nso glad,joy\n")
    for streaming in (False, True):
        texts = build(spec("set", split="train", label="mood", only=("joy",), limit=2, streaming=streaming))
        assert (list(texts), texts.labels, texts.dropped) == (["good day", "well done"], ("joy",), 1)
    refused("has no column 'txt'", spec("set", split="train", column="txt", streaming=True))
