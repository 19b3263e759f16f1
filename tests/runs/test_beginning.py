"""What is done ahead of a run: it fills what the run looks into anyway, and nothing where there is nothing to do."""

import hashlib
import os

import pytest

from reporter.core.files import read_note
from reporter.core.progress import Progress
from reporter.runs.records import now, study_row
from reporter.runs.runner import begin
from reporter.runs.studies import offer
from reporter.spec import load_study
from reporter.store import Store

WEIGHTS = os.urandom(20 << 20)  # hashed in more than one piece


@pytest.fixture
def begun(monkeypatch):
    """The folders whose script was begun."""
    folders = []
    monkeypatch.setattr("reporter.report.templating.begin_script", folders.append)
    return folders


@pytest.fixture
def file(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(WEIGHTS)
    os.utime(folder / "model.safetensors", (1e9, 1e9))
    path = tmp_path / "study.yaml"
    path.write_text(
        "study: one\nmodels: {lost: {path: nowhere}, mine: {path: model}}\n"
        "corpora: {c: {texts: [a b]}}\nmetrics: [motion]\n"
    )
    return load_study(path, offer())


def test_hashes_are_known_and_the_script_begun(file, begun, tmp_path):
    begin([file], out := tmp_path / "results", Progress())
    memo = read_note(out / "cache" / "file-hashes.json")
    assert memo is not None
    assert [known[2] for known in memo.values()] == [hashlib.sha256(WEIGHTS).hexdigest()]
    assert begun == [out]


def test_nothing_is_begun_where_all_is_done_unless_it_is_forced(file, begun, tmp_path):
    out = tmp_path / "results"
    Store(out / "results.duckdb").put("studies", ["study"], study_row(file, started=now(), finished=now()))
    begin([file], out, Progress())
    assert not begun and not (out / "cache").exists()
    begin([file], out, Progress(), force=True)
    assert begun == [out]
