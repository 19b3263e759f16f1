"""Shared by several folders: ``tests/oracles`` can be imported, and a fake model can be measured."""

import os
import shutil
import sys
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

# Two processes on two cores that each start a thread for every core would wait for each other. It must be said before
# torch is imported, and only where tests run side by side (``pytest -n 2``).
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the command line has it beside others

# Every process of the tests imports the same modules: one of them compiles each, also where Python is asked not to.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

sys.path.append(str(Path(__file__).parent))  # so that tests say ``from oracles.dimension import twonn``

MAKING = ("app/docs/test_search.py", "browser/test_reading.py", "runs/test_resume.py")
"""Files whose first tests make what many others read (see ``once``)."""


def pytest_collection_modifyitems(items):
    """Begin with the files that make what others read: later no process waits for another one that makes it."""
    items.sort(key=lambda item: not item.path.as_posix().endswith(MAKING))


@pytest.fixture
def every_interval(monkeypatch):
    """Show the intervals of few texts as well, for tests of what they are made of."""
    monkeypatch.setattr("reporter.metrics._coverage._needed", dict)


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """Return a function that has a folder made once for all processes of a run of tests, which may only read it."""
    from filelock import FileLock

    def made(name, make):
        root = tmp_path_factory.getbasetemp()
        if "PYTEST_XDIST_WORKER" in os.environ:
            root = root.parent
        folder, done = root / name, root / f"{name}.done"
        with FileLock(root / f"{name}.lock"):
            if not done.exists():
                folder.mkdir()
                make(folder)
                done.touch()
        return folder

    return made


@pytest.fixture(scope="session")
def bare_runs():
    """Return a context in which runs leave out reports and findings and, unless they are wanted, answers."""

    @contextmanager
    def context(answers=False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("reporter.runs.runner._report", lambda *_: ())
            patch.setattr("reporter.runs.whole.write_findings", lambda *_: 0)
            if not answers:
                patch.setattr("reporter.runs.whole.write_answers", lambda *_: None)
            yield

    return context


@pytest.fixture(scope="session")
def empty(once):
    """A database with all its tables, to be copied."""
    import reporter.metrics  # noqa: F401  (declares its tables to the store)
    from reporter.store.making import create_file

    return once("empty-database", lambda folder: create_file(folder / "results.duckdb")) / "results.duckdb"


@pytest.fixture(scope="session", autouse=True)
def new_databases_are_copies(empty):
    """Copy a database where a test makes a new one: to make all tables takes longer than to fill them."""
    from reporter.core.files import place_file
    from reporter.store import database_file, merging

    create_file = database_file.create_file

    def copy(path):
        if path.exists():
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(prefix=".new-", dir=path.parent) as folder:
                place_file(Path(shutil.copy(empty, folder)), path)
        except OSError:
            create_file(path)

    database_file.create_file = merging.create_file = copy
    yield
    database_file.create_file = merging.create_file = create_file


@pytest.fixture(scope="session")
def reports(once):
    """A rendered results folder that tests only read; see ``fill_all`` for its studies."""

    def make(folder):
        from report.made_up import fill_all

        from reporter.report import render
        from reporter.runs.whole import write_comparison, write_over_models
        from reporter.store import Store

        fill_all(folder / "results.duckdb")
        store = Store(folder / "results.duckdb")
        write_over_models(store, "made-up")
        for study in store.studies():
            write_comparison(store, study)
        render(folder / "results.duckdb", folder)

    return once("reports", make)


@pytest.fixture(scope="session")
def documentation(once):
    """The folder of the site, as ``reporter docs --out`` writes it; mistakes of a page would be an error."""
    pytest.importorskip("furo", reason="needs the extra 'docs'")
    pytest.importorskip("myst_parser", reason="needs the extra 'docs'")

    def make(folder):
        from typer.testing import CliRunner

        from reporter.app.cli import app

        done = CliRunner().invoke(app, ["docs", "--out", str(folder / "site")], prog_name="reporter")
        assert done.exit_code == 0, done.output

    return once("documentation", make) / "site"


@pytest.fixture(scope="session")
def single(reports, once):
    """A folder of reports in one file: a study with a hostile name, and one with journeys."""

    def make(folder):
        from reporter.report import single_file

        def render(database, place, studies):
            shutil.copytree(reports / studies[0], place / studies[0])

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(single_file, "render", render)  # the pages are there
            for study in ("made-up", "explored"):
                single_file.write_single_file(reports / "results.duckdb", study, folder / f"{study}.html")

    return once("single", make)


@pytest.fixture
def observe(monkeypatch):
    """Return a function that sends texts through a model and returns its observables and counts."""
    from oracles.fake_model import FakeHead, FakeModel, fake_vocabulary

    from reporter.forward.measure import Counts, measure
    from reporter.forward.observable import Setting
    from reporter.forward.observed import KINDS
    from reporter.forward.output import Settings
    from reporter.forward.reading import tokenised
    from reporter.forward.readout import Readout
    from reporter.forward.type_sample import count_types
    from reporter.models.places import Layout

    def run(
        model, texts, *, batch_tokens=512, shard_characters=10**9, sample=100_000, seed=0, names=tuple(KINDS),
        observables=None, first_shard=0, shards=None, sites=("final",), max_tokens=256,
    ):  # fmt: skip
        """Measure ``shards`` shards (None: all) from ``first_shard`` on into ``observables`` or fresh ones."""
        monkeypatch.setattr("reporter.texts.tokens.SHARD_CHARACTERS", shard_characters)
        layout = Layout.of(model.anatomy, sites)
        corpus = tokenised(model, texts, max_tokens)
        counted = count_types(corpus, model.anatomy.vocabulary_size, seed)
        if observables is None:
            types, tokens_in_all = counted.at_least(5), int(counted.counts.sum() + counted.added.sum())
            labels = {i: f"t{i}" for i in types}
            setting = Setting(layout, seed, len(texts), sample, types, labels, tokens_in_all, counted.splits)
            observables = {name: KINDS[name].empty(setting) for name in names}
        more = {"contributions": isinstance(model, FakeModel) or not getattr(model, "contributions_problem", "unknown")}
        if isinstance(model, FakeModel):
            more |= {"readout": Readout(model, FakeHead(model)), "losses": True, "vocabulary": fake_vocabulary(model)}
        settings = Settings(batch_tokens, seed, "float32", layout, counted.frequent, **more)
        corpus = replace(corpus, shards=corpus.shards[first_shard:])
        steps = measure(model, corpus, list(observables.values()), settings)
        return observables, sum((counts for _, counts in islice(steps, shards)), Counts())

    return run


@pytest.fixture
def values():
    """Return a function that computes metrics as {(name, layer): Value} and checks each for plain sanity."""
    from metrics.reading import numbers
    from oracles.fake_model import SMALL

    from reporter.forward.observed import Observed
    from reporter.metrics.base import Value, catalogue

    def run(model, observables, texts, view="text tokens", metrics=None, seed=0, **options):
        seen = Observed(observables, observables["moments"].layout, texts, view, seed)
        found = {}
        for name, metric in catalogue().items():
            if metrics is None or name in metrics:
                rows = metric.compute(seen, metric.options(**options.get(name, SMALL.get(name, {}))))
                for row in numbers(rows).values():
                    if isinstance(row, Value):
                        where = row.place and (row.place.layer if row.place in seen.path else str(row.place))
                        found[f"{name}.{row.statistic}", where] = row
        return found

    return run
