"""Finds the checkpoints of a study's model and what identifies each, without loading anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reporter.errors import ReporterError
from reporter.imports import check_installed
from reporter.models.checkpoint import FINAL, Checkpoint, Split
from reporter.models.model_folder import (
    adapter_files,
    code_files,
    config_file,
    fingerprint,
    gguf_file,
    hash_files,
    offload_folder,
    quantised_by,
    tokenizer_files,
    tokenizer_folder,
    weight_files,
)
from reporter.paths import shared
from reporter.spec.models import CheckpointSpec, HubModel, PathModel, RecipeModel, StatesModel
from reporter.spec.recipes import Tuning

if TYPE_CHECKING:
    from reporter.spec.models import ModelSpec
    from reporter.texts.texts import Texts

TextsOf = Callable[[str], "Texts"]
ModelOf = Callable[[str], tuple[Checkpoint, ...]]


def resolve(
    name: str,
    spec: ModelSpec,
    folder: Path,
    cache: Path,
    texts: TextsOf,
    offline: bool,
    models: ModelOf | None = None,
) -> tuple[Checkpoint, ...]:
    """Return the checkpoints of one model, in the order of the study. Imports neither torch nor transformers.

    Args:
        name: what the study calls the model.
        spec: what the study says of it.
        folder: the study's folder, from which relative paths start.
        cache: the folder of caches; recipe models are in ``cache/models``.
        texts: gives the texts of a corpus, for recipes.
        offline: never ask a hub.
        models: gives the checkpoints of another model of the study, for a recipe that continues it; None where there
            is no such recipe.

    Raises:
        ReporterError: if files are missing, or a hub model cannot be found.
    """
    found = _resolve(name, spec, folder, cache, texts, offline, models)
    if isinstance(spec, StatesModel):
        return found
    found = tuple(replace(checkpoint, bos=spec.bos) for checkpoint in found)
    if not isinstance(spec, HubModel | PathModel):
        return found
    try:
        return tuple(_said(checkpoint, spec, folder, cache) for checkpoint in found)
    except ReporterError as error:
        raise ReporterError(f"model '{name}': {error}") from error


def _said(checkpoint: Checkpoint, spec: HubModel | PathModel, folder: Path, cache: Path) -> Checkpoint:
    """Return a checkpoint with what the study says of how it is read."""
    more: dict[str, Any] = {}
    if spec.part == "decoder":  # the encoder is what is measured where nothing is said
        more["part"] = spec.part
    if spec.adapter is not None:
        adapter = folder / spec.adapter.expanduser()
        more["adapter"] = hash_files(adapter_files(adapter), cache)
        location = f"{checkpoint.location} + {shared(spec.adapter, folder)}"
        checkpoint = replace(checkpoint, adapter=adapter, location=location)
    if more:
        checkpoint = replace(checkpoint, fingerprint=fingerprint({"of": checkpoint.fingerprint, **more}))
    split = None
    if spec.device_map is not None:
        check_installed("accelerate", "split", "device_map")
        offload = spec.offload_folder and offload_folder(folder / spec.offload_folder.expanduser())
        room = {int(device) if device.isdigit() else device: most for device, most in spec.max_memory.items()}
        split = Split(room, offload)
    return replace(checkpoint, part=spec.part, split=split)


def _resolve(
    name: str,
    spec: ModelSpec,
    folder: Path,
    cache: Path,
    texts: TextsOf,
    offline: bool,
    models: ModelOf | None,
) -> tuple[Checkpoint, ...]:
    try:
        if isinstance(spec, PathModel):
            return _of_path(name, spec, folder, cache)
        if isinstance(spec, StatesModel):
            return (_of_states(name, spec, folder, cache),)
        if isinstance(spec, HubModel):
            from reporter.models.hub import resolve_hub  # its import takes as long as all the rest

            return resolve_hub(name, spec, offline)
        assert isinstance(spec, RecipeModel)
        from reporter.models.recipe import resolve_recipe

        origin: tuple[Checkpoint, ...] = ()
        if isinstance(spec.recipe, Tuning):
            assert models is not None
            origin = models(spec.recipe.continues)
        return resolve_recipe(name, spec.recipe, cache, texts(spec.recipe.train_on), origin)
    except ReporterError as error:
        meant = ""
        if isinstance(spec, HubModel) and (folder / spec.hub).is_dir():
            meant = f"; for the folder {spec.hub} beside the study write {{path: {spec.hub}}}"
        raise ReporterError(f"model '{name}': {error}{meant}") from error


def _of_path(name: str, spec: PathModel, folder: Path, cache: Path) -> tuple[Checkpoint, ...]:
    root = folder / spec.path.expanduser()
    wanted = spec.checkpoints or (CheckpointSpec(name="", step=None),)
    found = []
    file = gguf_file(root)
    if file is not None and spec.checkpoints:
        raise ReporterError(
            f"{file} is one file, which has no sub-folders; give each checkpoint's file a model of its own"
        )
    for one in wanted:
        print_ = (
            _path_fingerprint(root, one.name, spec, cache) if file is None else _gguf_fingerprint(file, spec, cache)
        )
        found.append(
            Checkpoint(
                model=name,
                name=one.name if spec.checkpoints else FINAL,
                step=one.step,
                source="path",
                location=shared(spec.path / one.name, folder),
                path=root if file is None else file.parent,
                hub=None,
                revision=print_,
                subfolder=one.name or None,
                dtype=spec.dtype,
                trust_remote_code=spec.trust_remote_code,
                allow_pickle=spec.allow_pickle,
                fingerprint=print_,
                gguf=None if file is None else file.name,
            )
        )
    return tuple(found)


def _of_states(name: str, spec: StatesModel, folder: Path, cache: Path) -> Checkpoint:
    files = {corpus: folder / path for corpus, path in spec.states.items()}
    # Files of several folders may have one name, so each is hashed by itself.
    hashes = {
        corpus: fingerprint({"states": hash_files([file], cache), "role": spec.role}) for corpus, file in files.items()
    }
    whole = fingerprint(hashes)
    return Checkpoint(
        model=name,
        name=FINAL,
        step=None,
        source="states",
        location=", ".join(shared(path, folder) for path in spec.states.values()),
        path=None,
        hub=None,
        revision=whole,
        subfolder=None,
        dtype="auto",
        trust_remote_code=False,
        allow_pickle=False,
        fingerprint=whole,
        states={corpus: (file, hashes[corpus]) for corpus, file in files.items()},
        role=spec.role,
    )


def _gguf_fingerprint(file: Path, spec: PathModel, cache: Path) -> str:
    return fingerprint({"gguf": hash_files([file], cache)[file.name], "dtype": spec.dtype})


def _path_fingerprint(root: Path, subfolder: str, spec: PathModel, cache: Path) -> str:
    folder = root / subfolder
    files = [config_file(folder), *weight_files(folder, spec.allow_pickle)]
    if spec.trust_remote_code:
        files += code_files(folder)
        tokenizer = tokenizer_files(folder) or tokenizer_files(root)
    else:
        tokenizer = tokenizer_files(tokenizer_folder([folder, root]))
    return fingerprint(
        {
            "model": hash_files(files, cache),
            "tokenizer": hash_files(tokenizer, cache),
            "dtype": spec.dtype,
            # earlier versions ran packed weights as they are, with other numbers
            **({"quantised": "unpacked"} if quantised_by(folder) else {}),
        }
    )
