"""Read a study with its plug-ins, and check that what it names is on this machine."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from reporter.core.arrays import as_json
from reporter.core.errors import ReporterError, UsageError, no_results, no_study, one_line
from reporter.core.files import instead_of
from reporter.core.imports import Registry, check_installed, load_plugin
from reporter.core.numbers import counted
from reporter.judge.claims import CLAIM_KINDS, claim_kinds
from reporter.metrics.analysis import ANALYSES, analyses
from reporter.metrics.base import METRICS, catalogue, statistics
from reporter.study.corpora import CorpusPart
from reporter.study.load import Layers, check_layers, layers_of, load_studies, plugins_of
from reporter.study.models import HubModel, PathModel, StatesModel
from reporter.study.offer import Offer
from reporter.study.part import Complaint, join
from reporter.study.problems import Problem, SpecError
from reporter.study.recipes import shares_of
from reporter.study.study import Study, StudyFile
from reporter.texts.sources import SOURCES, SourceContext, source_of

REGISTRIES: tuple[Registry[Any], ...] = (METRICS, ANALYSES, SOURCES, CLAIM_KINDS)
"""What a plug-in of a study may add to."""
MOST_READ = 10_000
"""Texts of a file that are read to find its errors; more where a filter or a label needs them."""
_NOT_A_FILE = Path("study")  # what messages call a study that is no file; its relative paths start from here


def offer(plugins: Collection[Path] = ()) -> Offer:
    """Return what a study may ask for, with the metrics and so on of its plug-ins, which are loaded."""
    metrics, of_analyses = METRICS.all(plugins), ANALYSES.all(plugins)
    for name in metrics.keys() & of_analyses.keys():
        raise UsageError(f"a metric and an analysis are both named {name!r}; rename one of them")
    return Offer(
        metrics={name: m.options for name, m in metrics.items()},
        statistics=statistics(metrics) | {n: {s.name: s.per for s in a.statistics} for n, a in of_analyses.items()},
        fixed={f"{m.name}.{s.name}": s.fixed for m in metrics.values() for s in m.statistics if s.fixed},
        sources={key: source.form for key, source in SOURCES.all(plugins).items()},
        sections={name: analysis.section for name, analysis in of_analyses.items()},
        claims=claim_kinds(plugins),
    )


def forget_plugins() -> None:
    """Remove what the plug-ins of all studies registered."""
    for registry in REGISTRIES:
        registry.forget()


def read_study(path: Path, changes: Sequence[str] = ()) -> StudyFile:
    """Read and check the study in a YAML file; see :func:`read_studies`."""
    return read_studies([path], changes)[0]


def read_studies(paths: Sequence[Path], changes: Sequence[str] = ()) -> list[StudyFile]:
    """Read and check several studies, each with its own plug-ins; those of earlier calls are forgotten.

    Args:
        paths: the files.
        changes: overrides in each of them, such as ``models.bert=./mine``.

    Raises:
        SpecError: the problems of all of them; two studies with one id are a problem, too.
        UsageError: a plug-in cannot be run.
    """
    forget_plugins()
    loaded: set[Path] = set()
    return load_studies(paths, lambda path: _parse(layers_of(path, changes), loaded))


def read_text(path: Path, text: str) -> StudyFile:
    """Read and check a study whose text was read from ``path`` before, with its plug-ins.

    Raises:
        SpecError: something in it is wrong.
        UsageError: a plug-in cannot be run.
    """
    forget_plugins()
    return _parse(layers_of(path, text=text), set())


def read_stored(study: str, text: str, database: Path) -> StudyFile:
    """Read the text of a study that a database holds; relative paths start from the current folder.

    A database may come from somebody else, so the text runs no code of its plug-ins and models.

    Raises:
        SpecError: something in it is wrong.
        UsageError: it names code that would run.
    """
    forget_plugins()
    layers = layers_of(Path.cwd() / f"{study}.yaml", text=text)
    code = [f"the plug-in {one_line(str(plugin))}" for plugin in plugins_of(layers)]
    models = layers.data.get("models") if isinstance(layers.data, dict) else None
    for name, model in models.items() if isinstance(models, dict) and not code else ():
        if isinstance(model, dict) and model.get("trust_remote_code"):
            code.append(f"the Python code of model '{one_line(str(name))}'")
    if code:
        raise UsageError(
            f"the study '{one_line(study)}' that {database} holds would run {code[0]}. If you trust it, name the YAML "
            "file of the study instead of its id"
        )
    return _parse(layers, set())


def find_study(study: str, out: Path) -> StudyFile:
    """Return a study by its file, or by its id as the database holds it; relative paths then start from here.

    Raises:
        SpecError: something in the file is wrong.
        UsageError: there is no such study, or what was stored of it can no longer be read.
    """
    from reporter.store import Store

    if Path(study).suffix in {".yaml", ".yml"} or Path(study).is_file():
        return read_study(Path(study))
    database = out / "results.duckdb"
    if not database.is_file():
        raise no_results(database)
    specs = {
        row["study"]: row["spec"] for row in Store(database).records("SELECT study, spec FROM studies ORDER BY study")
    }
    if study not in specs:
        raise no_study(study, out, list(specs))
    try:
        return read_stored(study, specs[study], database)
    except SpecError as error:
        problem = f"this version of reporter cannot read the study '{study}' that the database holds"
        raise UsageError(
            f"{problem} ({counted(len(error.problems), 'problem')}); name the YAML file of the study instead"
        ) from error


def study_of(study: str | Path | Mapping[str, Any] | StudyFile) -> StudyFile:
    """Return the study of a YAML file, of a mapping with the same keys, or of what this function returned.

    Raises:
        SpecError: something in it is wrong.
        UsageError: it is neither of these, or a plug-in cannot be run.
    """
    if isinstance(study, str | Path):
        return read_study(Path(study))
    if isinstance(study, StudyFile):  # read again: a study that was read since then had other plug-ins
        return replace(read_text(study.path, study.text), notes=study.notes)
    if not isinstance(study, Mapping):
        raise UsageError(f"a study must be a YAML file or a mapping, got {type(study).__name__}")
    text = as_json(study, "a study as a mapping", indent=1)
    try:
        return read_text(_NOT_A_FILE, text)
    except SpecError as error:  # the lines and columns of this text mean nothing to the caller
        raise SpecError(Problem(p.file, 0, 0, p.where, p.message) for p in error.problems) from None


def _parse(layers: Layers, loaded: set[Path]) -> StudyFile:
    plugins = plugins_of(layers)
    for plugin in plugins:
        if plugin.resolve() not in loaded:
            load_plugin(plugin, REGISTRIES)
            loaded.add(plugin.resolve())
    file = check_layers(layers, offer(plugins))
    if problems := [layers.problem(complaint) for complaint in _without_base(file.study, layers.data)]:
        raise SpecError(problems)
    return file


def _without_base(study: Study, data: Mapping[str, Any]) -> Iterator[Complaint]:
    """Yield a complaint about each listed metric that only compares models with their base, where none has a base."""
    listed = data.get("metrics")
    if not isinstance(listed, list) or any(model.base for model in study.models.values()):
        return
    for place, item in enumerate(listed):
        name = next(iter(item)) if isinstance(item, dict) else item
        if name in catalogue() and catalogue()[name].compares_only:
            says = f"`{name}` compares a model with its base, but no model has a base; add `base: NAME` to a model"
            yield Complaint(says, ("metrics", place))


def absent(file: StudyFile, changes: Sequence[str] = ()) -> list[Problem]:
    """Return what a study that was just read names and this machine lacks, with the places in the file.

    Hub models and hub datasets are not looked for, which would need the network. Nothing is loaded.

    Args:
        file: the study.
        changes: the overrides of the call.
    """
    layers = layers_of(file.path, changes)
    return [layers.problem(complaint) for complaint in missing(file)]


def missing(file: StudyFile) -> Iterator[Complaint]:
    """Yield what a study names and this machine lacks; see :func:`absent`."""
    study, folder = file.study, file.folder
    chats = bool(study.metrics) and any(getattr(corpus, "chat", False) for corpus in study.corpora.values())
    for name, model in study.models.items():
        try:
            if isinstance(model, HubModel | PathModel):
                _find_model(model, folder, chats)
        except ReporterError as error:
            yield Complaint(str(error), ("models", name))
        for corpus, path in model.states.items() if isinstance(model, StatesModel) else ():
            if not (folder / path).is_file():
                lacking = f"there is no file {path}{instead_of(folder / path)}"
                yield Complaint(lacking, ("models", name, "states", corpus))
    labels = shares_of(study.corpora)
    for name, part in study.corpora.items():
        if name not in labels:  # the whole corpus names the labels of these in `by`
            yield from join(_unfit_corpus(part, folder), "corpora", name)
    for analysis in analyses().values():
        for name, item in analysis.items(study).items():
            try:
                analysis.resolve(item, folder)
            except ReporterError as error:
                by_name = analysis.section.by_name and not analysis.section.together
                yield Complaint(str(error), (analysis.name, name) if by_name else (analysis.name,))
    style, templates = study.report.style, study.report.templates
    if style is not None and not (folder / style).is_file():
        yield Complaint(f"there is no file {style}{instead_of(folder / style)}", ("report", "style"))
    if templates is not None and not (folder / templates).is_dir():
        lacking = f"there is no folder {templates}{instead_of(folder / templates, Path.is_dir)}"
        yield Complaint(lacking, ("report", "templates"))


def beyond_limits(file: StudyFile) -> Iterator[str]:
    """Yield a note for each corpus whose ``max_tokens`` exceeds the limit of a model in a folder."""
    from reporter.models.model_folder import limit_of

    models = {name: model for name, model in file.study.models.items() if isinstance(model, PathModel)}
    limits = {name: limit_of(file.folder / model.path) for name, model in models.items()}
    for name, corpus in file.study.corpora.items():
        for model, limit in limits.items():
            if limit is not None and corpus.window is None and limit < corpus.max_tokens:
                yield (
                    f"corpus '{name}': max_tokens is {corpus.max_tokens:,}, but model '{model}' takes at most "
                    f"{limit:,} tokens, where it cuts longer texts"
                )


def cautions_of(file: StudyFile) -> Iterator[str]:
    """Yield what the texts on this machine are too few or unfit for; at most ``MOST_READ`` of a corpus are read."""
    from reporter.runs.cautions import cautions
    from reporter.texts.build import build_texts
    from reporter.texts.sources.stored import FileCorpus, InlineCorpus, SampleCorpus

    with TemporaryDirectory() as cache:
        texts = {}
        for name, part in file.study.corpora.items():
            if isinstance(part, FileCorpus | InlineCorpus | SampleCorpus):
                part = part.model_copy(update={"limit": min(part.limit or MOST_READ, MOST_READ), "size_of": None})
                texts[name] = build_texts(name, part, file.folder, Path(cache), beyond=False)
        yield from cautions(file.study, texts)


def not_looked_at(file: StudyFile) -> str:
    """Return what of a study only a run finds out, since it is in the network or on another machine; or nothing."""
    from reporter.texts.sources.stored import DatasetCorpus, local_dataset

    study = file.study
    hub = sum(isinstance(model, HubModel) for model in study.models.values())
    datasets = [part.dataset for part in study.corpora.values() if isinstance(part, DatasetCorpus)]
    remote = sum(local_dataset(name, file.folder) is None for name in datasets)
    parts = [counted(count, what) for count, what in ((hub, "model"), (remote, "data set")) if count]
    what = [f"{' and '.join(parts)} of the hub"] if parts else []
    what += [f"the device {study.run.device}"] if study.run.device not in ("auto", "cpu") else []
    return f"not looked at: {', '.join(what)}" if what else ""


def _find_model(model: HubModel | PathModel, folder: Path, chats: bool) -> None:
    from reporter.models import model_folder
    from reporter.texts.chat import NO_TEMPLATE

    if isinstance(model, PathModel):
        root = folder / model.path
        for name in [checkpoint.name for checkpoint in model.checkpoints] or [""]:
            if model_folder.gguf_file(root) is not None:
                break
            model_folder.config_file(root / name)
            model_folder.weight_files(root / name, model.allow_pickle)
            model_folder.tokenizer_folder([root / name, root])
            places = (root / name, root, *([folder / model.adapter] if model.adapter else []))
            if chats and not any(map(model_folder.has_chat_template, places)):
                raise ReporterError(NO_TEMPLATE)
    if model.adapter is not None:
        model_folder.adapter_files(folder / model.adapter)
        check_installed("peft", "peft", "an adapter")
    if model.device_map is not None:
        check_installed("accelerate", "split", "device_map")
        if model.offload_folder is not None:
            model_folder.offload_folder(folder / model.offload_folder)


def _unfit_corpus(part: CorpusPart, folder: Path) -> Iterator[Complaint]:
    """Yield why a corpus cannot be built, located in the corpus."""
    from reporter.texts.build import unfit
    from reporter.texts.sources.stored import DatasetCorpus, FileCorpus, InlineCorpus, SampleCorpus, local_dataset

    try:
        if isinstance(part, DatasetCorpus):
            if local_dataset(part.dataset, folder) is None:
                check_installed("datasets", "datasets", f"dataset '{part.dataset}'")
        elif not any(
            True for reference in part.references if reference.to == "models" for _ in reference.named(part)
        ):  # made of a vocabulary
            origin = source_of(part).find(part, SourceContext(folder, True, None))
            if isinstance(part, FileCorpus | InlineCorpus | SampleCorpus):
                yield from unfit(part, origin, MOST_READ)
    except ReporterError as error:
        yield Complaint(str(error))
