"""Hub models: which commit, where in the local cache, and what is said where neither knows it. No network is used."""

import shutil
import socket
from dataclasses import replace
from types import SimpleNamespace

import huggingface_hub
import pytest
from huggingface_hub import constants, errors
from models.folders import configure

from reporter.core.errors import ReporterError
from reporter.models import resolve as hub
from reporter.models.checkpoint import random_init
from reporter.models.load import load
from reporter.models.resolve import resolve
from reporter.models.words import whole_words
from reporter.spec.models import CheckpointSpec, HubModel

OLD, NEW = "a" * 40, "b" * 40
NAME = "owner/name"
SAFE = ("config.json", "model.safetensors", "tokenizer.json")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch, answer):
    """Return an empty local cache; whoever reaches for the network fails."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    answer(AssertionError("the hub was asked"))
    return tmp_path / "hub"


@pytest.fixture
def answer(monkeypatch):
    """Let the hub answer: an exception, or a commit with its files. Returns the list of what it is asked."""

    def replace(*answers):
        questions, replies = [], list(answers)

        class Api:
            def model_info(self, name, revision, timeout):
                questions.append((name, revision))
                assert timeout > 0
                reply = replies.pop(0) if len(replies) > 1 else replies[0]
                if isinstance(reply, BaseException):
                    raise reply
                commit, files = reply
                return SimpleNamespace(sha=commit, siblings=[SimpleNamespace(rfilename=f) for f in files])

        monkeypatch.setattr(huggingface_hub, "HfApi", Api)
        return questions

    return replace


@pytest.fixture
def put(cache, family):
    """Return a function that puts a BERT into the local cache, as the hub's client would."""

    def copy(commit, reference="main", name=NAME):
        place = cache / f"models--{name.replace('/', '--')}"
        shutil.copytree(family("bert"), place / "snapshots" / commit)
        if reference:
            (place / "refs").mkdir(exist_ok=True)
            (place / "refs" / reference).write_text(commit)
        return place / "snapshots" / commit

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
    assert (checkpoint.source, checkpoint.location, checkpoint.hub) == ("hub", NAME, NAME)
    assert (checkpoint.name, checkpoint.revision, checkpoint.path) == ("final", OLD, place)
    assert load(checkpoint, "cpu", offline=True).anatomy.family == "bert"
    (cached,) = find(False, revision=OLD)  # a commit that is cached needs no question
    assert cached.revision == OLD


def test_offline_what_is_not_cached_whole_is_refused(put, find, tmp_path, monkeypatch):
    with pytest.raises(ReporterError, match=r"model 'm': owner/name is not in the local hub cache, and .* is offline"):
        find(True)
    with monkeypatch.context() as patch:
        patch.setattr(constants, "HF_HUB_OFFLINE", True)  # as the environment can say, too
        with pytest.raises(ReporterError, match="offline"):
            find(False)
    (tmp_path / NAME).mkdir(parents=True)
    with pytest.raises(ReporterError, match=r"To name the folder .* write {path: owner/name}$"):
        find(True)
    place = put(OLD)
    with pytest.raises(ReporterError, match=r"owner/name at revision 'step1' is not in the local hub cache"):
        find(True, revision="step1")
    (place / "model.safetensors").unlink()
    with pytest.raises(ReporterError, match=r"model 'm': .*has no weights"):
        find(True)


def test_the_hub_knows_the_commit_and_without_a_network_the_local_cache_does(put, find, answer):
    answer(OSError("no route"))
    assert hub.TIMEOUT <= 10
    with pytest.raises(
        ReporterError,
        match=r"not in the local hub cache, and the hub cannot be reached \(no route\); check the network",
    ):
        find()
    put(OLD)
    (cached,) = find()
    assert cached.revision == OLD and cached.fingerprint == find(True)[0].fingerprint
    questions = answer((NEW, SAFE))
    (checkpoint,) = find()
    assert questions == [(NAME, "main")]
    assert (checkpoint.revision, checkpoint.path) == (NEW, None)  # what is cached is another commit
    place = put(NEW, reference=None)
    (again,) = find()
    assert (again.path, again.fingerprint) == (place, checkpoint.fingerprint)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (errors.RepositoryNotFoundError, "owner/name is not on the hub"),
        (errors.RevisionNotFoundError, "has no revision 'step1'"),
        (errors.GatedRepoError, "is gated"),
    ],
)
def test_what_the_hub_refuses_is_passed_on(kind, says, find, answer):
    error = kind.__new__(kind)
    Exception.__init__(error, "no")
    answer(error)
    with pytest.raises(ReporterError, match=says):
        find(revision="step1")


def test_pickle_on_the_hub_must_be_allowed(find, answer):
    answer((NEW, ("config.json", "pytorch_model.bin", "onnx/model.safetensors")))
    with pytest.raises(ReporterError, match="`allow_pickle: true`"):
        find()
    assert find(allow_pickle=True)[0].revision == NEW


def test_checkpoints_are_revisions(find, answer):
    questions = answer((OLD, SAFE), (NEW, SAFE))
    steps = (CheckpointSpec(name="step1", step=1), CheckpointSpec(name="step512", step=512))
    first, second = find(checkpoints=steps)
    assert questions == [(NAME, "step1"), (NAME, "step512")]
    assert (first.name, first.step, first.revision) == ("step1", 1, OLD)
    assert (second.name, second.step, second.revision) == ("step512", 512, NEW)
    assert first.fingerprint != second.fingerprint


def test_fetching_asks_for_no_pickle_and_a_failure_is_one_line(find, answer, family, monkeypatch):
    answer((NEW, SAFE))
    (checkpoint,) = find()
    downloads = []

    def fetch(name, **options):
        downloads.append(options)
        return str(family("gpt2"))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    assert load(checkpoint, "cpu", offline=False).anatomy.family == "gpt2"
    assert downloads[0]["revision"] == NEW and not downloads[0]["local_files_only"]
    assert not any(pattern.endswith((".bin", ".py")) or pattern == "*" for pattern in downloads[0]["allow_patterns"])

    def fail(name, **options):
        raise OSError("disk full\nand more")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(ReporterError, match=r"model 'm': cannot download owner/name: disk full; check"):
        load(checkpoint, "cpu", offline=False)


def test_a_tokenizer_may_be_that_of_another_repository(put, find):
    bare = put(OLD)
    before = find(True)[0].fingerprint
    for file in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"):
        (bare / file).unlink(missing_ok=True)
    with pytest.raises(ReporterError, match=r"the tokenizer of other/name is not in the local hub cache"):
        find(True, tokenizer="other/name")
    put(NEW, name="other/name")
    (checkpoint,) = find(True, tokenizer="other/name")
    assert (checkpoint.path, checkpoint.tokenizer.revision) == (bare, NEW)
    assert checkpoint.fingerprint != before  # another tokenizer gives other tokens
    assert load(checkpoint, "cpu", offline=True).tokenizer("a b")["input_ids"]


def test_random_weights_of_a_hub_model_need_no_weights_cached_or_not(put, find, family, monkeypatch):
    place = put(OLD)
    (checkpoint,) = find(True, revision=OLD)
    (place / "model.safetensors").unlink()
    made, absent = random_init(checkpoint, 3), replace(checkpoint, path=None)
    assert load(made, "cpu", offline=True).anatomy.family == "bert"
    assert made.fingerprint == random_init(absent, 3).fingerprint
    assert made.fingerprint != random_init(replace(checkpoint, revision=NEW), 3).fingerprint
    patterns = []

    def fetch(name, **options):
        patterns.extend(options["allow_patterns"])
        return str(family("gpt2"))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    shutil.rmtree(place)
    assert load(random_init(absent, 3), "cpu", offline=True).anatomy.family == "gpt2"
    assert patterns and not any("safetensors" in pattern for pattern in patterns)


@pytest.mark.parametrize("offline", [True, False])
def test_offline_holds_for_remote_code(put, find, monkeypatch, offline):
    """A configuration may name Python code in another repository, which transformers would fetch."""
    hosts = []

    def ask(host, *_, **__):
        hosts.append(host)
        raise AssertionError("the hub was asked")

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    place = put(OLD)
    code = {"AutoConfig": "other/code--c.C", "AutoModel": "other/code--m.M"}
    configure(place, model_type="martian", auto_map=code)
    (checkpoint,) = find(True, trust_remote_code=True)
    with pytest.raises(ReporterError, match=f"model 'm': cannot (load|read) .*{place}"):
        load(checkpoint, "cpu", offline)
    assert bool(hosts) != offline


def test_offline_holds_for_the_words_of_a_tokenizer(find, answer, monkeypatch):
    local = []

    def fetch(*_, local_files_only, **__):
        local.append(local_files_only)
        raise OSError("not there")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    answer((NEW, SAFE))
    for (checkpoint,) in (find(), find(tokenizer="other/name")):
        with pytest.raises(ReporterError, match="cannot download"):
            whole_words(checkpoint, offline=True)
    assert local == [True, True]
