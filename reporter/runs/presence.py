"""Whether what a study names is on this machine: folders, files, packages, the device. Nothing is loaded or fetched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from reporter.analyses.registry import analyses
from reporter.errors import ReporterError
from reporter.imports import check_installed
from reporter.models.model_folder import (
    adapter_files,
    config_file,
    gguf_file,
    has_chat_template,
    offload_folder,
    tokenizer_folder,
    weight_files,
)
from reporter.spec.models import HubModel, PathModel, StatesModel
from reporter.spec.part import Complaint
from reporter.texts.chat import NO_TEMPLATE
from reporter.texts.origin import Around, source_of
from reporter.texts.sources.dataset import DatasetCorpus, local_dataset

if TYPE_CHECKING:
    from pathlib import Path

    from reporter.spec import StudyFile
    from reporter.spec.corpora import CorpusPart


def missing(file: StudyFile) -> Iterator[Complaint]:
    """Yield what a study names that is not there, and where it names it.

    Hub models and hub datasets are not looked for, which would take the network; for a dataset its package is.

    Args:
        file: a valid study.
    """
    study, folder = file.study, file.folder
    chats = bool(study.metrics) and any(getattr(corpus, "chat", False) for corpus in study.corpora.values())
    for name, model in study.models.items():
        at: tuple[str | int, ...] = ("models", name)
        try:
            if isinstance(model, PathModel):
                _find_model(folder / model.path.expanduser(), model, chats)
            if isinstance(model, HubModel | PathModel) and model.adapter is not None:
                adapter_files(folder / model.adapter.expanduser())
                check_installed("peft", "peft", "an adapter")
            if isinstance(model, HubModel | PathModel) and model.device_map is not None:
                check_installed("accelerate", "split", "device_map")
                if model.offload_folder is not None:
                    offload_folder(folder / model.offload_folder.expanduser())
        except ReporterError as error:
            yield Complaint(str(error), at)
        for corpus, path in model.states.items() if isinstance(model, StatesModel) else ():
            if not (folder / path.expanduser()).is_file():
                yield Complaint(f"there is no file {path}", (*at, "states", corpus))
    for name, corpus_part in study.corpora.items():
        try:
            _find_corpus(corpus_part, folder)
        except ReporterError as error:
            yield Complaint(str(error), ("corpora", name))
    for analysis in analyses().values():
        for name, item in analysis.items(study).items():
            try:
                analysis.resolve(item, folder)
            except ReporterError as error:
                by_name = analysis.section.by_name and not analysis.section.together
                yield Complaint(str(error), (analysis.name, name) if by_name else (analysis.name,))
    style, templates = study.report.style, study.report.templates
    if style is not None and not (folder / style).is_file():
        yield Complaint(f"there is no file {style}", ("report", "style"))
    if templates is not None and not (folder / templates).is_dir():
        yield Complaint(f"there is no folder {templates}", ("report", "templates"))
    if study.run.device not in ("auto", "cpu"):
        from reporter.runs.work import pick_device  # brings torch

        try:
            pick_device(study.run.device)
        except ReporterError as error:
            yield Complaint(str(error), ("run", "device"))


def _find_model(root: Path, model: PathModel, chats: bool) -> None:
    if gguf_file(root) is not None:
        return
    for name in [checkpoint.name for checkpoint in model.checkpoints] or [""]:
        config_file(root / name)
        weight_files(root / name, model.allow_pickle)
        tokenizer_folder([root / name, root])
        if chats and not any(map(has_chat_template, (root / name, root))):
            raise ReporterError(NO_TEMPLATE)


def _find_corpus(said: CorpusPart, folder: Path) -> None:
    if isinstance(said, DatasetCorpus):
        if local_dataset(said.dataset, folder) is None:
            check_installed("datasets", "datasets", f"the hub's dataset '{said.dataset}'")
    elif not any(True for of in said.references if of.to == "models" for _ in of.named(said)):  # made of a vocabulary
        source_of(said).find(said, Around(folder, True, None))
