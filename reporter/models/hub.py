"""Models from a hub: which commit a revision is, where the local cache has it, and fetching it.

The commit is what identifies the weights. Online the hub is asked for it once; offline, or where the hub
cannot be reached, the local cache says which commit it last saw under that name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reporter.errors import ReporterError, first_line
from reporter.models.checkpoint import FINAL, Borrowed, Checkpoint
from reporter.models.model_folder import PICKLE, PICKLE_INDEX, config_file, fingerprint, weight_files
from reporter.spec.models import CheckpointSpec, HubModel

TIMEOUT = 10.0  # seconds to wait for the hub's answer

_WANTED = ("*.json", "*.txt", "*.model", "*.tiktoken", "*.spm", "*.jinja", "bpe.codes")
_SAFE = ("model.safetensors", "model-*-of-*.safetensors")
_PICKLED = ("pytorch_model.bin", "pytorch_model-*-of-*.bin")
_DEFAULT = "main"


@dataclass(frozen=True)
class _Answer:
    """What the hub says of a revision: its commit and the names of its files."""

    commit: str
    files: tuple[str, ...]


class _Unreachable(Exception):
    """The hub did not answer; the local cache may still help."""


def resolve_hub(name: str, spec: HubModel, offline: bool) -> tuple[Checkpoint, ...]:
    """Return the checkpoints of a hub model, each at a fixed commit.

    Args:
        name: what the study calls the model.
        spec: what the study says of it.
        offline: use the local cache only.

    Raises:
        ReporterError: if a revision is neither on the hub nor in the local cache, or has pickled weights
            only.
    """
    from huggingface_hub import constants

    offline = offline or constants.HF_HUB_OFFLINE
    wanted = spec.checkpoints or (CheckpointSpec(name=spec.revision or _DEFAULT, step=None),)
    tokenizer = None if spec.tokenizer is None else _borrow(spec.tokenizer, offline)
    identity = {} if tokenizer is None else {"tokenizer": f"{tokenizer.hub} {tokenizer.revision}"}
    found = []
    for one in wanted:
        commit, path = _locate(spec, one.name, offline)
        found.append(
            Checkpoint(
                model=name,
                name=one.name if spec.checkpoints else FINAL,
                step=one.step,
                source="hub",
                location=spec.hub,
                path=path,
                hub=spec.hub,
                revision=commit,
                subfolder=None,
                dtype=spec.dtype,
                trust_remote_code=spec.trust_remote_code,
                allow_pickle=spec.allow_pickle,
                fingerprint=fingerprint({"hub": spec.hub, "commit": commit, "dtype": spec.dtype, **identity}),
                tokenizer=tokenizer,
            )
        )
    return tuple(found)


def download(checkpoint: Checkpoint, offline: bool, weights: bool = True) -> Path:
    """Return the local folder of a hub model, fetching what is missing there. No pickle is fetched unasked.

    Args:
        checkpoint: of a hub model.
        offline: fetch nothing.
        weights: False for configuration and tokenizer only.

    Raises:
        ReporterError: if it cannot be fetched.
    """
    assert checkpoint.hub is not None and checkpoint.revision is not None
    patterns = [*_WANTED, *(["*.py"] if checkpoint.trust_remote_code else [])]
    folder = _fetch(checkpoint.hub, checkpoint.revision, [*patterns, *(_SAFE if weights else ())], offline)
    if weights and checkpoint.allow_pickle and not any(folder.glob("*.safetensors")):
        folder = _fetch(checkpoint.hub, checkpoint.revision, [*patterns, *_PICKLED], offline)
    return folder


def tokenizer_of(borrowed: Borrowed, offline: bool) -> Path:
    """Return the folder of a tokenizer from another repository, fetching it where it is not in the local cache.

    Args:
        borrowed: which one.
        offline: fetch nothing.

    Raises:
        ReporterError: if it cannot be fetched.
    """
    return borrowed.path or _fetch(borrowed.hub, borrowed.revision, list(_WANTED), offline)


def cached_snapshot(hub: str, revision: str) -> Path | None:
    """Return the folder of a revision in the local hub cache, or None. Needs no network."""
    from huggingface_hub import constants

    repository = Path(constants.HF_HUB_CACHE) / f"models--{hub.replace('/', '--')}"
    reference = repository / "refs" / revision
    try:
        commit = reference.read_text("utf-8").strip() if reference.is_file() else revision
    except OSError:
        return None
    folder = repository / "snapshots" / commit
    return folder if folder.is_dir() else None


def _locate(spec: HubModel, revision: str, offline: bool) -> tuple[str, Path | None]:
    """Return the commit of a revision, and its folder in the local cache where that is complete."""
    snapshot = cached_snapshot(spec.hub, revision)
    if offline or (_is_commit(revision) and snapshot is not None):
        answer = None
    else:
        try:
            answer = _ask(spec.hub, revision)
        except _Unreachable as error:
            if snapshot is None:
                raise ReporterError(
                    f"{_full_name(spec.hub, revision)} is not in the local hub cache and the hub cannot be reached "
                    f"({error})"
                ) from error
            answer = None
    if answer is not None:
        _check_files(spec, revision, answer.files)
        snapshot = cached_snapshot(spec.hub, answer.commit)
        return answer.commit, snapshot if snapshot and _is_complete(snapshot, spec) else None
    if snapshot is None:
        raise ReporterError(
            f"{_full_name(spec.hub, revision)} is not in the local hub cache and this run is offline: "
            "run it once with a network, or give the `path` of a folder"
        )
    if offline:
        config_file(snapshot)
        weight_files(snapshot, spec.allow_pickle)
    complete = _is_complete(snapshot, spec)
    return snapshot.name, snapshot if complete else None


def _borrow(hub: str, offline: bool) -> Borrowed:
    """Return where the tokenizer of another repository is: its commit, and its folder in the local cache, if there."""
    from reporter.models.model_folder import tokenizer_files

    snapshot = cached_snapshot(hub, _DEFAULT)
    there = snapshot is not None and bool(tokenizer_files(snapshot))
    if not offline:
        try:
            commit = _ask(hub, _DEFAULT).commit
            return Borrowed(
                hub, commit, snapshot if there and snapshot is not None and snapshot.name == commit else None
            )
        except _Unreachable as error:
            if not there:
                raise ReporterError(
                    f"the tokenizer of {hub} is not in the local hub cache and the hub cannot be reached ({error})"
                ) from error
    if snapshot is None or not there:
        raise ReporterError(
            f"the tokenizer of {hub} is not in the local hub cache and this run is offline: run it once with a network"
        )
    return Borrowed(hub, snapshot.name, snapshot)


def _ask(hub: str, revision: str) -> _Answer:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        info = HfApi().model_info(hub, revision=revision, timeout=TIMEOUT)
    except GatedRepoError as error:
        raise ReporterError(f"{hub} is gated: accept its terms on the hub and log in with `hf auth login`") from error
    except RevisionNotFoundError as error:
        raise ReporterError(f"{hub} has no revision '{revision}' on the hub") from error
    except RepositoryNotFoundError as error:
        raise ReporterError(
            f"{hub} is not on the hub; mind the spelling, or log in with `hf auth login` if it is private"
        ) from error
    except Exception as error:  # no network, a proxy, a hub that is down: all the same to the user
        raise _Unreachable(_first_line(error)) from error
    return _Answer(str(info.sha), tuple(file.rfilename for file in info.siblings or ()))


def _check_files(spec: HubModel, revision: str, files: Sequence[str]) -> None:
    if not files or any(file.endswith(".safetensors") and "/" not in file for file in files):
        return
    if spec.allow_pickle and {PICKLE, PICKLE_INDEX} & set(files):
        return
    if {PICKLE, PICKLE_INDEX} & set(files):
        raise ReporterError(
            f"{_full_name(spec.hub, revision)} holds its weights as pickle only, which can run code when it is read; "
            "write `allow_pickle: true` for this model if you trust them"
        )
    raise ReporterError(f"{_full_name(spec.hub, revision)} has no weights in safetensors format")


def _fetch(hub: str, commit: str, patterns: list[str], offline: bool) -> Path:
    from huggingface_hub import snapshot_download

    try:
        folder = snapshot_download(
            hub,
            revision=commit,
            allow_patterns=patterns,
            ignore_patterns=["*/*"],
            local_files_only=offline,
        )
    except Exception as error:
        raise ReporterError(f"{hub} cannot be fetched from the hub: {_first_line(error)}") from error
    return Path(folder)


def _is_complete(snapshot: Path, spec: HubModel) -> bool:
    from reporter.models.model_folder import tokenizer_files

    try:
        config_file(snapshot)
        weight_files(snapshot, spec.allow_pickle)
    except ReporterError:
        return False
    return spec.tokenizer is not None or bool(tokenizer_files(snapshot))


def _is_commit(revision: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{40}", revision) is not None


def _full_name(hub: str, revision: str) -> str:
    return hub if revision == _DEFAULT else f"{hub} at revision '{revision}'"


def _first_line(error: Exception) -> str:
    return first_line(error)[:200]
