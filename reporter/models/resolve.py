"""Finds the checkpoints of a study's model and what identifies each, without loading anything."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reporter.core.errors import ReporterError, failures, first_line, shared
from reporter.core.imports import check_installed
from reporter.models import model_folder
from reporter.models.checkpoint import FINAL, Checkpoint, OtherTokenizer, Split
from reporter.models.model_folder import fingerprint
from reporter.study.models import CheckpointSpec, HubModel, ModelSpec, PathModel, RecipeModel, StatesModel
from reporter.study.recipes import Tuning
from reporter.texts.texts import Texts

TextsOf = Callable[[str], "Texts"]
ModelOf = Callable[[str], tuple[Checkpoint, ...]]


def resolve(
    name: str, spec: ModelSpec, folder: Path, cache: Path, texts: TextsOf, offline: bool, models: ModelOf | None = None
) -> tuple[Checkpoint, ...]:
    """Return the checkpoints of one model, in the order of the study. Imports neither torch nor transformers.

    Args:
        name: the name of the model in the study.
        spec: its entry in the study.
        folder: the study's folder, from which relative paths start.
        cache: the folder of caches; recipe models are in ``cache/models``.
        texts: gives the texts of a corpus, for recipes.
        offline: never use the network.
        models: gives the checkpoints of another model of the study, for a recipe that continues it; None where there
            is no such recipe.
    """
    try:
        if isinstance(spec, StatesModel):
            return (_of_states(name, spec, folder, cache),)
        if isinstance(spec, RecipeModel):
            from reporter.models.toy.training import resolve_recipe

            origin: tuple[Checkpoint, ...] = ()
            if isinstance(spec.recipe, Tuning):
                assert models is not None
                origin = models(spec.recipe.continues)
            checkpoints = resolve_recipe(name, spec.recipe, cache, texts(spec.recipe.train_on), origin)
        else:
            resolved = (
                resolve_hub(name, spec, offline) if isinstance(spec, HubModel) else _of_path(name, spec, folder, cache)
            )
            checkpoints = tuple(_as_read(checkpoint, spec, folder, cache) for checkpoint in resolved)
        return tuple(replace(checkpoint, bos=spec.bos) for checkpoint in checkpoints)
    except ReporterError as error:
        meant = ""
        if isinstance(spec, HubModel) and (folder / spec.hub).is_dir():
            meant = f". To name the folder {spec.hub} next to the study, write {{path: {spec.hub}}}"
        raise ReporterError(f"model '{name}': {error}{meant}") from error


def _as_read(checkpoint: Checkpoint, spec: HubModel | PathModel, folder: Path, cache: Path) -> Checkpoint:
    """Return a checkpoint with what the study says of how it is read."""
    more: dict[str, Any] = {}
    if spec.part == "decoder":  # the encoder is what is measured where nothing is said
        more["part"] = spec.part
    if spec.adapter is not None:
        adapter = folder / spec.adapter
        files = [*model_folder.adapter_files(adapter), *model_folder.tokenizer_files(adapter)]
        more["adapter"] = model_folder.hash_files(files, cache)
        location = f"{checkpoint.location} + {shared(spec.adapter, folder)}"
        checkpoint = replace(checkpoint, adapter=adapter, location=location)
    if more:
        checkpoint = replace(checkpoint, fingerprint=fingerprint({"of": checkpoint.fingerprint, **more}))
    split = None
    if spec.device_map is not None:
        check_installed("accelerate", "split", "device_map")
        offload = spec.offload_folder and model_folder.offload_folder(folder / spec.offload_folder)
        room = {int(device) if device.isdigit() else device: most for device, most in spec.max_memory.items()}
        split = Split(room, offload)
    return replace(checkpoint, part=spec.part, split=split)


def _of_path(name: str, spec: PathModel, folder: Path, cache: Path) -> tuple[Checkpoint, ...]:
    root = folder / spec.path
    file = model_folder.gguf_file(root)
    if file is not None and spec.checkpoints:
        raise ReporterError(
            f"{file} is a single file without sub-folders; remove `checkpoints`, and list each file as a model"
        )
    checkpoints = []
    for step in spec.checkpoints or (CheckpointSpec(name="", step=None),):
        if file is None:
            identity = _path_fingerprint(root, step.name, spec, cache)
            where: dict[str, Any] = {"path": root, "subfolder": step.name or None}
        else:
            identity = fingerprint({"gguf": model_folder.hash_files([file], cache)[file.name], "dtype": spec.dtype})
            where = {"path": file.parent, "gguf": file.name}
        where["location"] = shared(spec.path / step.name, folder)
        checkpoints.append(
            _checkpoint(name, spec, step, source="path", revision=identity, fingerprint=identity, **where)
        )
    return tuple(checkpoints)


def _checkpoint(name: str, spec: HubModel | PathModel, step: CheckpointSpec, **more: Any) -> Checkpoint:
    settings = spec.model_dump(include={"dtype", "trust_remote_code", "allow_pickle"})
    return Checkpoint(model=name, name=step.name if spec.checkpoints else FINAL, step=step.step, **settings, **more)


def _of_states(name: str, spec: StatesModel, folder: Path, cache: Path) -> Checkpoint:
    files = {corpus: folder / path for corpus, path in spec.states.items()}
    # Files of several folders may have one name, so each is hashed by itself.
    hashes = {
        corpus: fingerprint({"states": model_folder.hash_files([file], cache), "role": spec.role})
        for corpus, file in files.items()
    }
    whole = fingerprint(hashes)
    return Checkpoint(
        model=name,
        name=FINAL,
        source="states",
        location=", ".join(shared(path, folder) for path in spec.states.values()),
        revision=whole,
        fingerprint=whole,
        states={corpus: (file, hashes[corpus]) for corpus, file in files.items()},
        role=spec.role,
    )


def _path_fingerprint(root: Path, subfolder: str, spec: PathModel, cache: Path) -> str:
    folder = root / subfolder
    model_folder.config_file(folder)
    weights = model_folder.weight_files(folder, spec.allow_pickle)
    files, tokenizer = model_folder.identifying_files(folder, root, spec.trust_remote_code)
    return fingerprint(
        {
            "model": model_folder.hash_files([*files, *weights], cache),
            "tokenizer": model_folder.hash_files(tokenizer, cache),
            "dtype": spec.dtype,
            # earlier versions ran packed weights as they are, with other numbers
            **({"quantised": "unpacked"} if model_folder.quantised_by(folder) else {}),
        }
    )


# Models from a hub: which commit a revision is, where the local cache has it, and fetching it.
#
# The commit is what identifies the weights. Online the hub is asked for it once; offline, or where the hub cannot be
# reached, the local cache says which commit it last saw under that name.


TIMEOUT = 10.0  # seconds to wait for the hub's answer

_WANTED = ("*.json", "*.txt", "*.model", "*.tiktoken", "*.spm", "*.jinja", "bpe.codes")
_SAFE = ("model.safetensors", "model-*-of-*.safetensors", "*_Dense/model.safetensors")
_PICKLED = ("pytorch_model.bin", "pytorch_model-*-of-*.bin")
_DEFAULT = "main"


def resolve_hub(name: str, spec: HubModel, offline: bool) -> tuple[Checkpoint, ...]:
    """Return the checkpoints of a hub model, each at a fixed commit."""
    from huggingface_hub import constants

    offline = offline or constants.HF_HUB_OFFLINE
    requested = spec.checkpoints or (CheckpointSpec(name=spec.revision or _DEFAULT, step=None),)
    tokenizer = None if spec.tokenizer is None else _borrow(spec.tokenizer, offline)
    identity = {} if tokenizer is None else {"tokenizer": f"{tokenizer.hub} {tokenizer.revision}"}
    checkpoints = []
    for step in requested:
        commit, path = _locate(spec, step.name, offline)
        of_hub = {"hub": spec.hub, "location": spec.hub, "path": path, "revision": commit, "tokenizer": tokenizer}
        identified = fingerprint({"hub": spec.hub, "commit": commit, "dtype": spec.dtype, **identity})
        checkpoints.append(_checkpoint(name, spec, step, source="hub", fingerprint=identified, **of_hub))
    return tuple(checkpoints)


def download(checkpoint: Checkpoint, offline: bool, weights: bool = True) -> Path:
    """Return the local folder of a hub model, fetching what is missing there. No pickle is fetched unasked."""
    assert checkpoint.hub is not None and checkpoint.revision is not None
    patterns = [*_WANTED, *(["*.py"] if checkpoint.trust_remote_code else [])]
    folder = _fetch(checkpoint.hub, checkpoint.revision, [*patterns, *(_SAFE if weights else ())], offline)
    if weights and checkpoint.allow_pickle and not any(folder.glob("*.safetensors")):
        folder = _fetch(checkpoint.hub, checkpoint.revision, [*patterns, *_PICKLED], offline)
    return folder


def tokenizer_of(borrowed: OtherTokenizer, offline: bool) -> Path:
    """Return the folder of a tokenizer from another repository, fetching it where it is not in the local cache."""
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
    full_name = spec.hub if revision == _DEFAULT else f"{spec.hub} at revision '{revision}'"
    if snapshot is None or not re.fullmatch(r"[0-9a-f]{40}", revision):  # a commit does not change
        remedy = ", or give the `path` of a folder"
        commit, files = _ask_where_needed(spec.hub, revision, offline, snapshot, full_name, remedy)
        _check_files(spec, full_name, files)
        snapshot = cached_snapshot(spec.hub, commit)
    else:
        commit = snapshot.name
    if offline and snapshot is not None:
        model_folder.config_file(snapshot)
        model_folder.weight_files(snapshot, spec.allow_pickle)
    return commit, snapshot if snapshot and _is_complete(snapshot, spec) else None


def _borrow(hub: str, offline: bool) -> OtherTokenizer:
    """Return where the tokenizer of another repository is: its commit, and its folder in the local cache, if there."""
    snapshot = cached_snapshot(hub, _DEFAULT)
    if snapshot is not None and not model_folder.tokenizer_files(snapshot):
        snapshot = None
    commit, _ = _ask_where_needed(hub, _DEFAULT, offline, snapshot, f"the tokenizer of {hub}")
    return OtherTokenizer(hub, commit, snapshot if snapshot is not None and snapshot.name == commit else None)


def _ask_where_needed(
    hub: str, revision: str, offline: bool, snapshot: Path | None, what: str, remedy: str = ""
) -> tuple[str, tuple[str, ...]]:
    """Return what ``_ask`` returns; where the hub is not asked or does not answer, the commit in the local cache."""
    problem = f"this run is offline; run it once with a network{remedy}"
    if not offline:
        try:
            return _ask(hub, revision)
        except ConnectionError as error:
            problem = f"the hub cannot be reached ({error}); check the network{remedy}"
    if snapshot is None:
        raise ReporterError(f"{what} is not in the local hub cache, and {problem}")
    return snapshot.name, ()


def _ask(hub: str, revision: str) -> tuple[str, tuple[str, ...]]:
    """Return the commit of a revision and the names of its files."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        info = HfApi().model_info(hub, revision=revision, timeout=TIMEOUT)
    except GatedRepoError as error:
        raise ReporterError(f"{hub} is gated; accept its terms on the hub, then log in with `hf auth login`") from error
    except RevisionNotFoundError as error:
        raise ReporterError(
            f"{hub} has no revision '{revision}' on the hub; check its branches, tags and commits there"
        ) from error
    except RepositoryNotFoundError as error:
        raise ReporterError(
            f"{hub} is not on the hub; check the spelling. For a private model, log in with `hf auth login`"
        ) from error
    except failures() as error:  # no network, a proxy, a hub that is down: all the same to the user
        raise ConnectionError(first_line(error)[:200]) from error
    return str(info.sha), tuple(file.rfilename for file in info.siblings or ())


def _check_files(spec: HubModel, full_name: str, files: Sequence[str]) -> None:
    pickled = {model_folder.PICKLE, model_folder.PICKLE_INDEX} & set(files)
    if not files or any(file.endswith(".safetensors") and "/" not in file for file in files):
        return
    if pickled and not spec.allow_pickle:
        raise ReporterError(
            f"{full_name} has only pickle weights, which can run code; if you trust them, add `allow_pickle: true` to "
            "the model"
        )
    if not pickled:
        raise ReporterError(f"{full_name} has no weights in safetensors format; choose another revision or model")


def _fetch(hub: str, commit: str, patterns: list[str], offline: bool) -> Path:
    from huggingface_hub import constants, snapshot_download

    if str(constants.HF_HUB_CACHE).startswith("~"):  # it would be a folder of that name, here
        raise ReporterError(f"cannot download {hub}: the home folder of this user is unknown; set HF_HOME to a folder")
    try:
        folder = snapshot_download(
            hub, revision=commit, allow_patterns=patterns, ignore_patterns=["*/*"], local_files_only=offline
        )
    except failures() as error:
        raise ReporterError(
            f"cannot download {hub}: {first_line(error)[:200]}; check the network and the free disk space, then run "
            "again"
        ) from error
    return Path(folder)


def _is_complete(snapshot: Path, spec: HubModel) -> bool:
    try:
        model_folder.config_file(snapshot)
        model_folder.weight_files(snapshot, spec.allow_pickle)
    except ReporterError:
        return False
    return spec.tokenizer is not None or bool(model_folder.tokenizer_files(snapshot))
