"""Hub models: which commit, where in the local cache, and what is said where neither knows it. No network is used."""

import shutil
import socket
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import huggingface_hub
import pytest
from huggingface_hub import constants, errors
from models.folders import configure, refused

from reporter.core.errors import ReporterError
from reporter.models.checkpoint import random_init
from reporter.models.load import load
from reporter.models.resolve import _fetch, resolve
from reporter.models.words import whole_words
from reporter.study.models import HubModel

OLD, NEW, NAME = "a" * 40, "b" * 40, "owner/name"
SAFE = ("config.json", "model.safetensors", "tokenizer.json")


@pytest.fixture(autouse=True)
def hub(tmp_path, monkeypatch):
    """An empty local cache and a hub that fails, or answers with a commit of each revision, or gives a folder."""
    hub = SimpleNamespace(cache=tmp_path / "hub", error=AssertionError("the hub was asked"), folder=None, files=SAFE)
    hub.commits, hub.questions, hub.downloads = {"main": NEW}, [], []

    def model_info(name, revision, timeout):
        hub.questions.append((name, revision))
        assert 0 < timeout <= 10
        if hub.error:
            raise hub.error
        return SimpleNamespace(sha=hub.commits[revision], siblings=[Mock(rfilename=file) for file in hub.files])

    def snapshot_download(name, **options):
        hub.downloads.append(options)
        if hub.folder is None:
            raise OSError("disk full\nand more")
        return str(hub.folder)

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(hub.cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub, "HfApi", type("Api", (), {"model_info": staticmethod(model_info)}))
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return hub


@pytest.fixture
def put(hub, family):
    """Return a function that puts a BERT into the local cache, as the hub's client would."""

    def copy(commit, reference="main", name=NAME):
        place = hub.cache / f"models--{name.replace('/', '--')}"
        if reference:
            (place / "refs").mkdir(parents=True)
            (place / "refs" / reference).write_text(commit)
        return shutil.copytree(family("bert"), place / "snapshots" / commit)

    return copy


@pytest.fixture
def find(tmp_path):
    """Return a function that resolves the model of this name."""

    def get(offline=False, **options):
        spec = HubModel(hub=NAME, **options)
        return resolve("m", spec, tmp_path, tmp_path / "cache", None, offline=offline)

    return get


def test_offline_the_local_cache_knows_the_commit(put, find):
    place = put(OLD)
    (checkpoint,) = find(True)
    made = random_init(checkpoint, 3)
    assert made.fingerprint == random_init(replace(checkpoint, path=None), 3).fingerprint
    assert made.fingerprint != random_init(replace(checkpoint, revision=NEW), 3).fingerprint
    assert (checkpoint.source, checkpoint.location, checkpoint.hub) == ("hub", NAME, NAME)
    assert (checkpoint.name, checkpoint.revision, checkpoint.path) == ("final", OLD, place)
    assert load(checkpoint, "cpu", offline=True).anatomy.family == "bert"
    assert find(False, revision=OLD)[0].revision == OLD  # a commit that is cached needs no question


def test_offline_what_is_not_cached_whole_is_refused(put, find, tmp_path, monkeypatch):
    message = refused(find, offline=True)
    assert "owner/name is not in the local hub cache, and " in message and " is offline" in message
    with monkeypatch.context() as patch:
        patch.setattr(constants, "HF_HUB_OFFLINE", True)  # as the environment can say, too
        assert "offline" in refused(find)
    (tmp_path / NAME).mkdir(parents=True)
    assert refused(find, offline=True).endswith(" write {path: owner/name}")
    place = put(OLD)
    assert "at revision 'step1' is not in the local hub" in refused(find, offline=True, revision="step1")
    (place / "model.safetensors").unlink()
    assert "has no weights" in refused(find, offline=True)


def test_the_hub_knows_the_commit_and_without_a_network_the_local_cache_does(hub, put, find):
    hub.error = OSError("no route")
    assert "hub cache, and the hub cannot be reached (no route); check the network" in refused(find)
    put(OLD)
    (cached,) = find()
    assert cached.revision == OLD and cached.fingerprint == find(True)[0].fingerprint
    hub.error, hub.questions[:] = None, []
    (checkpoint,) = find()
    assert hub.questions == [(NAME, "main")]
    assert (checkpoint.revision, checkpoint.path) == (NEW, None)  # what is cached is another commit
    place = put(NEW, reference=None)
    (again,) = find()
    assert (again.path, again.fingerprint) == (place, checkpoint.fingerprint)


def test_what_the_hub_refuses_is_passed_on_and_pickle_must_be_allowed(hub, find):
    for kind, says in (
        (errors.RepositoryNotFoundError, "owner/name is not on the hub"),
        (errors.RevisionNotFoundError, "has no revision 'step1'"),
        (errors.GatedRepoError, "is gated"),
    ):
        hub.error = kind.__new__(kind)
        assert says in refused(find, revision="step1")
    hub.error, hub.files = None, ("config.json", "pytorch_model.bin", "onnx/model.safetensors")
    assert "`allow_pickle: true`" in refused(find)
    assert find(allow_pickle=True)[0].revision == NEW


def test_checkpoints_are_revisions(hub, find):
    hub.error, hub.commits = None, {"step1": OLD, "step512": NEW}
    checkpoints = find(checkpoints=[{"revision": "step1", "step": 1}, {"revision": "step512", "step": 512}])
    assert hub.questions == [(NAME, "step1"), (NAME, "step512")]
    assert [(c.name, c.step, c.revision) for c in checkpoints] == [("step1", 1, OLD), ("step512", 512, NEW)]
    assert checkpoints[0].fingerprint != checkpoints[1].fingerprint


def test_fetching_asks_for_no_pickle_and_a_failure_is_one_line(hub, find, family):
    hub.error = None
    (checkpoint,) = find()
    assert "cannot download owner/name: disk full; check" in refused(load, checkpoint, device="cpu", offline=False)
    hub.folder = family("gpt2")
    assert load(checkpoint, "cpu", offline=False).anatomy.family == "gpt2"
    assert load(random_init(checkpoint, 3), "cpu", offline=True).anatomy.family == "gpt2"
    fetched, drawn = hub.downloads[1], hub.downloads[-1]
    assert fetched["revision"] == NEW and not fetched["local_files_only"]
    assert not any(pattern.endswith((".bin", ".py")) or pattern == "*" for pattern in fetched["allow_patterns"])
    assert drawn["local_files_only"] and not any("safetensors" in pattern for pattern in drawn["allow_patterns"])


def test_a_tokenizer_may_be_that_of_another_repository(put, find):
    bare = put(OLD)
    before = find(True)[0].fingerprint
    for file in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"):
        (bare / file).unlink(missing_ok=True)
    assert "the tokenizer of other/name is not in the local" in refused(find, offline=True, tokenizer="other/name")
    put(NEW, name="other/name")
    (checkpoint,) = find(True, tokenizer="other/name")
    assert (checkpoint.path, checkpoint.tokenizer.revision) == (bare, NEW)
    assert checkpoint.fingerprint != before  # another tokenizer gives other tokens
    assert load(checkpoint, "cpu", offline=True).tokenizer("a b")["input_ids"]


@pytest.mark.parametrize("offline", [True, False])
def test_offline_holds_for_remote_code_and_for_the_words_of_a_tokenizer(hub, put, find, monkeypatch, offline):
    """A configuration may name Python code in another repository, which transformers would fetch."""
    ask = Mock(side_effect=AssertionError("the hub was asked"))
    monkeypatch.setattr(socket, "getaddrinfo", ask)
    place, code = put(OLD), {"AutoConfig": "other/code--c.C", "AutoModel": "other/code--m.M"}
    configure(place, model_type="martian", auto_map=code)
    (checkpoint,) = find(True, trust_remote_code=True)
    assert f" {place}" in refused(load, checkpoint, device="cpu", offline=offline)
    assert ask.called != offline
    hub.error = None
    for (checkpoint,) in (find(), find(tokenizer="other/name")):
        assert "cannot download" in refused(whole_words, checkpoint, offline=offline)
        assert hub.downloads[-1]["local_files_only"] == offline


def test_nothing_is_downloaded_into_a_folder_called_tilde(monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", "~/.cache/huggingface/hub")  # as it is where no home is known
    with pytest.raises(
        ReporterError, match="cannot download a/b: the home folder of this user is unknown; set HF_HOME"
    ):
        _fetch("a/b", "0" * 40, ["*.json"], False)
