"""Hub models: which commit, where in the local cache, and what is said where neither knows it. No network is used."""

from __future__ import annotations

import json
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import constants, errors

from reporter.core.errors import ReporterError
from reporter.models import resolve as hub
from reporter.models.checkpoint import Checkpoint
from reporter.models.load import load
from reporter.models.resolve import resolve
from reporter.models.words import whole_words
from reporter.spec.models import CheckpointSpec, HubModel

OLD, NEW = "a" * 40, "b" * 40
NAME = "owner/name"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty local cache; whoever reaches for the network fails."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    answer(monkeypatch, AssertionError("the hub was asked"))
    return tmp_path / "hub"


def answer(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> list[tuple[str, str]]:
    """Let the hub answer: an exception, or a commit with its files. Returns the list of what it is asked."""
    asked: list[tuple[str, str]] = []
    given = list(answers)

    class Api:
        def model_info(self, name: str, revision: str, timeout: float) -> Any:
            asked.append((name, revision))
            assert timeout > 0
            reply = given.pop(0) if len(given) > 1 else given[0]
            if isinstance(reply, BaseException):
                raise reply
            commit, files = reply
            return SimpleNamespace(sha=commit, siblings=[SimpleNamespace(rfilename=f) for f in files])

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    return asked


def put(cache: Path, folder: Path, commit: str, reference: str | None = "main") -> Path:
    """Put a model into the local cache, as the hub's client would."""
    place = cache / "models--owner--name" / "snapshots" / commit
    shutil.copytree(folder, place)
    if reference:
        (cache / "models--owner--name" / "refs").mkdir(exist_ok=True)
        (cache / "models--owner--name" / "refs" / reference).write_text(commit)
    return place


def find(offline: bool, tmp_path: Path, **options: Any) -> tuple[Checkpoint, ...]:
    spec = HubModel(hub=NAME, **options)
    return resolve("m", spec, tmp_path, tmp_path / "cache", lambda name: None, offline=offline)


def response(kind: type[Exception]) -> Exception:
    error = kind.__new__(kind)
    Exception.__init__(error, "no")
    return error


SAFE = ("config.json", "model.safetensors", "tokenizer.json")


def test_offline_the_local_cache_knows_the_commit(cache: Path, family: Callable[[str], Path], tmp_path: Path) -> None:
    place = put(cache, family("bert"), OLD)
    (checkpoint,) = find(True, tmp_path)
    assert (checkpoint.source, checkpoint.location, checkpoint.hub) == ("hub", NAME, NAME)
    assert (checkpoint.name, checkpoint.revision, checkpoint.path) == ("final", OLD, place)
    assert load(checkpoint, "cpu", offline=True).anatomy.family == "bert"


def test_offline_and_not_there(tmp_path: Path) -> None:
    with pytest.raises(ReporterError, match=r"model 'm': owner/name is not in the local hub cache and .* is offline"):
        find(True, tmp_path)


def test_a_folder_that_is_taken_for_a_hub_id(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir(parents=True)
    with pytest.raises(ReporterError, match=r"; for the folder owner/name beside the study write {path: owner/name}$"):
        find(True, tmp_path)


def test_offline_and_another_revision(cache: Path, family: Callable[[str], Path], tmp_path: Path) -> None:
    put(cache, family("bert"), OLD)
    with pytest.raises(ReporterError, match=r"owner/name at revision 'step1' is not in the local hub cache"):
        find(True, tmp_path, revision="step1")


def test_offline_and_only_half_there(cache: Path, family: Callable[[str], Path], tmp_path: Path) -> None:
    (put(cache, family("bert"), OLD) / "model.safetensors").unlink()
    with pytest.raises(ReporterError, match=r"model 'm': .*has no weights"):
        find(True, tmp_path)


def test_the_environment_can_say_offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ReporterError, match="this run is offline"):
        find(False, tmp_path)


def test_online_the_hub_knows_the_commit(
    cache: Path, family: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(cache, family("bert"), OLD)
    asked = answer(monkeypatch, (NEW, SAFE))
    (checkpoint,) = find(False, tmp_path)
    assert asked == [(NAME, "main")]
    assert (checkpoint.revision, checkpoint.path) == (NEW, None)  # what is cached is another commit
    place = put(cache, family("bert"), NEW, reference=None)
    (again,) = find(False, tmp_path)
    assert (again.path, again.fingerprint) == (place, checkpoint.fingerprint)


def test_a_commit_that_is_cached_needs_no_question(cache: Path, family: Callable[[str], Path], tmp_path: Path) -> None:
    put(cache, family("bert"), OLD)
    (checkpoint,) = find(False, tmp_path, revision=OLD)
    assert checkpoint.revision == OLD


def test_without_a_network_the_local_cache_will_do(
    cache: Path, family: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(cache, family("bert"), OLD)
    answer(monkeypatch, OSError("no route"))
    (checkpoint,) = find(False, tmp_path)
    assert checkpoint.revision == OLD
    assert checkpoint.fingerprint == find(True, tmp_path)[0].fingerprint


def test_without_a_network_and_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, OSError("no route"))
    with pytest.raises(ReporterError, match=r"not in the local hub cache and the hub cannot be reached \(no route\)"):
        find(False, tmp_path)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (errors.RepositoryNotFoundError, "owner/name is not on the hub"),
        (errors.RevisionNotFoundError, "has no revision 'step1'"),
        (errors.GatedRepoError, "is gated"),
    ],
)
def test_what_the_hub_refuses(
    kind: type[Exception], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, response(kind))
    with pytest.raises(ReporterError, match=said):
        find(False, tmp_path, revision="step1")


def test_pickle_only_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, (NEW, ("config.json", "pytorch_model.bin", "onnx/model.safetensors")))
    with pytest.raises(ReporterError, match="`allow_pickle: true`"):
        find(False, tmp_path)
    assert find(False, tmp_path, allow_pickle=True)[0].revision == NEW


def test_checkpoints_are_revisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answer(monkeypatch, (OLD, SAFE), (NEW, SAFE))
    steps = (CheckpointSpec(name="step1", step=1), CheckpointSpec(name="step512", step=512))
    first, second = find(False, tmp_path, checkpoints=steps)
    assert asked == [(NAME, "step1"), (NAME, "step512")]
    assert (first.name, first.step, first.revision) == ("step1", 1, OLD)
    assert (second.name, second.step, second.revision) == ("step512", 512, NEW)
    assert first.fingerprint != second.fingerprint


def test_fetching_asks_for_no_pickle(
    family: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, (NEW, SAFE))
    wanted: list[dict[str, Any]] = []

    def fetch(name: str, **options: Any) -> str:
        wanted.append(options)
        return str(family("gpt2"))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    (checkpoint,) = find(False, tmp_path)
    assert load(checkpoint, "cpu", offline=False).anatomy.family == "gpt2"
    assert wanted[0]["revision"] == NEW
    assert not wanted[0]["local_files_only"]
    assert not any(pattern.endswith((".bin", ".py")) or pattern == "*" for pattern in wanted[0]["allow_patterns"])


def test_what_cannot_be_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, (NEW, SAFE))

    def fail(name: str, **options: Any) -> str:
        raise OSError("disk full\nand more")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    (checkpoint,) = find(False, tmp_path)
    with pytest.raises(ReporterError, match=r"model 'm': owner/name cannot be fetched from the hub: disk full$"):
        load(checkpoint, "cpu", offline=False)


def test_only_a_hub_model_imports_the_client() -> None:
    assert "huggingface_hub" in sys.modules  # this file does; that resolving a folder does not is tested elsewhere
    assert hub.TIMEOUT <= 10


def test_a_tokenizer_of_another_repository(cache: Path, family: Callable[[str], Path], tmp_path: Path) -> None:
    bare = put(cache, family("bert"), OLD)
    own = find(True, tmp_path)[0].fingerprint
    for file in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"):
        (bare / file).unlink(missing_ok=True)
    with pytest.raises(ReporterError, match=r"the tokenizer of other/name is not in the local hub cache"):
        find(True, tmp_path, tokenizer="other/name")
    lender = cache / "models--other--name"
    shutil.copytree(family("bert"), lender / "snapshots" / NEW)
    (lender / "refs").mkdir()
    (lender / "refs" / "main").write_text(NEW)
    (checkpoint,) = find(True, tmp_path, tokenizer="other/name")
    assert checkpoint.tokenizer is not None
    assert (checkpoint.path, checkpoint.tokenizer.revision) == (bare, NEW)
    assert checkpoint.fingerprint != own  # another tokenizer gives other tokens
    assert load(checkpoint, "cpu", offline=True).tokenizer("a b")["input_ids"]


@pytest.mark.parametrize("offline", [True, False])
def test_offline_holds_for_remote_code(cache, family, tmp_path, monkeypatch, offline: bool) -> None:
    """A configuration may name Python code in another repository, which transformers would fetch."""
    asked: list[str] = []

    def ask(host: str, *_: Any, **__: Any) -> Any:
        asked.append(host)
        raise AssertionError("the hub was asked")

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    place = put(cache, family("bert"), OLD)
    config = json.loads((place / "config.json").read_text())
    own = {"AutoConfig": "other/code--c.C", "AutoModel": "other/code--m.M"}
    (place / "config.json").write_text(json.dumps(config | {"model_type": "martian", "auto_map": own}))
    (checkpoint,) = find(True, tmp_path, trust_remote_code=True)
    with pytest.raises(ReporterError, match=f"model 'm': its .* in {place} cannot be"):
        load(checkpoint, "cpu", offline)
    assert bool(asked) != offline


def test_offline_holds_for_the_words_of_a_tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def fetch(*_: Any, local_files_only: bool, **__: Any) -> str:
        asked.append(local_files_only)
        raise OSError("not there")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    answer(monkeypatch, (NEW, SAFE))
    (own,) = find(False, tmp_path)
    (borrowed,) = find(False, tmp_path, tokenizer="other/name")
    for checkpoint in (own, borrowed):
        with pytest.raises(ReporterError, match="cannot be fetched"):
            whole_words(checkpoint, offline=True)
    assert asked == [True, True]
