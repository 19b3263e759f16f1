"""The command line: what it says, where it says it, and how it exits."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from reporter import __version__
from reporter.app.cli import app
from reporter.app.docs.reference import tables_of
from reporter.core.errors import ReporterError, UsageError
from reporter.metrics.base import catalogue
from reporter.runs.studies import forget_plugins

GOOD = "study: good\nmodels: {m: gpt2}\ncorpora: {c: {texts: [a]}}\n"
BAD = "study: bad\nmodels: {m: {hub: gpt2, dtyp: auto}}\n"

Call = Callable[..., Result]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call the command in a folder that holds ``good.yaml`` and ``bad.yaml``."""
    monkeypatch.chdir(tmp_path)
    Path("good.yaml").write_text(GOOD)
    Path("bad.yaml").write_text(BAD)
    return lambda *arguments: CliRunner().invoke(app, list(arguments), prog_name="reporter")


@pytest.fixture
def replace(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put a stand-in for one function of the library in its place."""

    def put(module: str, **functions: Any) -> None:
        stand_in = ModuleType(module)
        for name, function in functions.items():
            setattr(stand_in, name, function)
        monkeypatch.setitem(sys.modules, module, stand_in)

    return put


COMMANDS = (
    "init",
    "validate",
    "plan",
    "run",
    "merge",
    "verify",
    "cache",
    "answer",
    "sql",
    "diff",
    "metrics",
    "docs",
    "export",
)


def test_help_fits_one_screen_and_names_every_command(call: Call) -> None:
    result = call("--help")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    listed = [line[9:].split()[0] for line in lines[lines.index("Commands:") + 1 :]]
    assert tuple(listed) == COMMANDS
    assert "..." not in result.stdout.partition("Commands:")[2]  # each summary fits its line


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_described(call: Call, command: str) -> None:
    result = call(command, "--help")
    assert result.exit_code == 0
    options = [line.split() for line in result.stdout.splitlines() if line.startswith("  -")]
    assert all(len(words) > 2 for words in options), f"{command} has an option without a description"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["run", "good.yaml", "--share", "1/2", "--force"], "--share takes one SPEC"),
        (["export", "good.yaml", "--site", "a", "--guard"], "--site and --guard cannot be combined"),
        (["export", "good.yaml", "bad.yaml"], "only --site takes several studies"),
        (["export", "good.yaml", "--only", "motion"], "--only needs --guard"),
        (["sql"], "missing QUERY"),
    ],
)
def test_options_that_do_not_go_together_exit_with_2(call: Call, arguments: list[str], problem: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 2 and problem in result.stderr


def test_version(call: Call) -> None:
    assert call("--version").stdout == f"reporter {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [["bogus"], ["validate"], ["validate", "--bogus", "good.yaml"], ["sql", "SELECT 1", "--format", "xml"], ["plan"]],
)
def test_a_wrong_call_exits_with_2(call: Call, arguments: list[str]) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert "Usage: reporter" in result.stderr
    assert result.stdout == ""


def test_validate_counts_what_a_study_has(call: Call) -> None:
    result = call("validate", "good.yaml")
    assert result.exit_code == 0
    assert (
        result.stdout
        == f"good.yaml: ok (1 model, 1 corpus, {sum(not m.optional for m in catalogue().values())} metrics)\n"
    )


def test_validate_looks_at_every_file_before_it_exits(call: Call) -> None:
    result = call("validate", "bad.yaml", "good.yaml", "none.yaml")
    assert result.exit_code == 2
    assert result.stdout.startswith("good.yaml: ok (")
    assert result.stderr.splitlines() == [
        "bad.yaml:2:25: models.m.dtyp: unknown key; did you mean 'dtype'?",
        "none.yaml: there is no such file; 'reporter init' writes a study to start from",
    ]


def test_init_writes_a_study_that_validates_and_never_overwrites(call: Call) -> None:
    assert call("init").stdout == "wrote study.yaml\n"
    assert call("validate", "study.yaml").exit_code == 0
    result = call("init", "study.yaml")
    assert result.exit_code == 2
    assert result.stderr == "study.yaml is already there; give another name, or remove it first\n"


def test_run_hands_over_what_was_asked_and_exits_with_the_outcome(call: Call, replace: Callable[..., None]) -> None:
    asked: dict[str, Any] = {}

    def run_studies(files: Any, **options: Any) -> SimpleNamespace:
        asked.update(options, files=[file.study.study for file in files])
        return SimpleNamespace(exit_code=1)

    replace("reporter.runs.runner", run_studies=run_studies)
    result = call("run", "good.yaml", "--only", "m", "--only", "c", "--force", "--offline", "--out", "there")
    assert result.exit_code == 1
    assert asked == {
        "files": ["good"],
        "out": Path("there"),
        "only": ("m", "c"),
        "force": True,
        "offline": True,
        "strict": None,
        "ahead": True,
        "engine": None,
        "workers": None,
        "address": None,
    }
    call("run", "good.yaml")
    assert asked == {
        "files": ["good"],
        "out": Path("results"),
        "only": (),
        "force": False,
        "offline": False,
        "strict": None,
        "ahead": True,
        "engine": None,
        "workers": None,
        "address": None,
    }


@pytest.mark.parametrize(
    ("said", "strict"), [("--strict", "refuted"), ("--strict=refuted", "refuted"), ("--strict=inconclusive",) * 2]
)
def test_strict_is_a_word_or_none(call: Call, replace: Callable[..., None], said: str, strict: str) -> None:
    asked: dict[str, Any] = {}
    replace("reporter.runs.runner", run_studies=lambda *_, **o: asked.update(o) or SimpleNamespace(exit_code=0))
    assert call("run", said, "good.yaml").exit_code == 0
    assert asked["strict"] == strict.rpartition("=")[2]


def test_a_call_can_say_something_otherwise(call: Call, replace: Callable[..., None]) -> None:
    files: list[Any] = []
    replace("reporter.runs.runner", run_studies=lambda f, **_: files.extend(f) or SimpleNamespace(exit_code=0))
    call("run", "good.yaml", "--set", "title=Mine", "--set", "run.seed=7")
    (file,) = files
    assert (file.study.title, file.study.run.seed) == ("Mine", 7)
    assert "title: Mine" in file.text  # what is hashed and stored
    result = call("validate", "good.yaml", "--set", "run.sed=7")
    assert (result.exit_code, result.stderr) == (2, "--set run.sed=7: run.sed: unknown key; did you mean 'seed'?\n")


def test_validate_can_look_for_what_a_study_names(call: Call) -> None:
    text = "study: lost\nmodels:\n  m: {path: nowhere}\ncorpora:\n  c: {file: no.txt}\nrun: {device: 'cuda:99'}\n"
    Path("lost.yaml").write_text(text)
    assert call("validate", "lost.yaml").exit_code == 0
    result = call("validate", "lost.yaml", "--paths")
    assert result.exit_code == 2
    model, corpus, device = result.stderr.splitlines()
    assert model.startswith("lost.yaml:3:6: models.m: the folder ") and model.endswith("nowhere is not there")
    assert corpus.startswith("lost.yaml:5:6: corpora.c: ") and "no.txt" in corpus
    assert device.startswith("lost.yaml:6:") and "this machine has no device 'cuda:99'" in device


def test_validate_reads_the_first_texts_of_a_file(call: Call) -> None:
    files = {
        "empty.txt": (b"", "holds no text"),
        "latin.txt": (b"caf\xe9 noir\n", "byte 3 (0xe9) is not UTF-8"),
        "mark.txt": ("hello\n".encode("utf-16"), "is UTF-16, not UTF-8"),
        "bare.txt": ("hello\n".encode("utf-16-le"), "zero byte"),
        "binary.txt": (b"\x7fELF\x00\x00\x01\n", "zero byte"),
        "table.csv, column: txt": (b"text,label\na b,x\n", "no column 'txt' (column); did you mean 'text'?"),
        "table.csv, column: text, label: lable": (b"text,label\na b,x\n", "no column 'lable' (label); did you mean"),
        "table.jsonl, column: txt": (b'{"text": "a"}\n', "no column 'txt' (column); did you mean 'text'?"),
    }
    for name, (content, _) in files.items():
        Path(name.partition(",")[0]).write_bytes(content)
    corpora = "".join(f"  c{i}: {{file: {name}}}\n" for i, name in enumerate(files))
    Path("bad-files.yaml").write_text(f"study: s\nmodels: {{m: gpt2}}\ncorpora:\n{corpora}")
    assert call("validate", "bad-files.yaml").exit_code == 0
    lines = call("validate", "bad-files.yaml", "--paths").stderr.splitlines()
    assert len(lines) == len(files)
    for line, (_, problem) in zip(lines, files.values(), strict=True):
        assert problem in line


def test_validate_says_which_path_was_meant_and_which_limit_cuts_texts(call: Call) -> None:
    Path("data").mkdir()
    Path("data/tweets.txt").write_text("a text\n")
    Path("look.css").write_text("")
    Path("model").mkdir()
    for file, said in (("config.json", '{"n_ctx": 512}'), ("model.safetensors", "{}"), ("tokenizer.json", "{}")):
        (Path("model") / file).write_text(said)
    study = (
        "study: s\nmodels: {m: {path: MODEL}}\nreport: {style: STYLE}\n"
        "corpora: {c: {file: FILE, max_tokens: 5000}, d: {texts: [a b], max_tokens: 512}}\n"
    )
    wrong = study.replace("MODEL", "modell").replace("STYLE", "loo.css").replace("FILE", "dat/tweets.txt")
    Path("paths.yaml").write_text(wrong)
    lines = call("validate", "paths.yaml", "--paths").stderr.splitlines()
    for line, meant in zip(lines, ("model'?", "data/tweets.txt'?", "look.css'?"), strict=True):
        assert "; did you mean '" in line and line.endswith(meant)
    right = study.replace("MODEL", "model").replace("STYLE", "look.css").replace("FILE", "data/tweets.txt")
    Path("paths.yaml").write_text(right)
    result = call("validate", "paths.yaml", "--paths")
    assert result.stdout.splitlines()[1:] == [
        "  corpus 'c': max_tokens is 5,000, but model 'm' takes 512 tokens at most; longer texts are cut there"
    ]


def test_validate_looks_for_adapters_gguf_files_and_packages(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reporter.core.imports.find_spec", lambda name: None)
    Path("there.gguf").write_bytes(b"GGUF")
    Path("lora").mkdir()
    (Path("lora") / "adapter_config.json").write_text("{}")
    Path("here").write_text("a file")
    said = {
        "gone": ("{path: gone.gguf}", "there is no file "),
        "there": ("{path: there.gguf}", "needs the optional package gguf: pip install 'reporter[gguf]'"),
        "tuned": ("{hub: owner/base, adapter: nowhere}", "nowhere is not there; an adapter's folder is what PEFT's"),
        "spelt": ("{hub: owner/base, adapter: loar}", "lora'?"),
        "empty": ("{hub: owner/base, adapter: lora}", "lora has no adapter_model.safetensors"),
        "large": ("{hub: owner/base, device_map: auto}", "pip install 'reporter[split]'"),
        "larger": ("{hub: owner/base, device_map: auto, offload_folder: here/in}", "pip install 'reporter[split]'"),
    }
    models = "".join(f"  {name}: {model}\n" for name, (model, _) in said.items())
    Path("own").mkdir()
    Path("own/own.txt").write_text("a text")
    corpora = "  c: {texts: [a b c]}\n  hub: {dataset: owner/texts, column: text}\n  own: {dataset: own, column: x}\n"
    Path("lost.yaml").write_text(f"study: lost\nmodels:\n{models}corpora:\n{corpora}")
    *lines, dataset = call("validate", "lost.yaml", "--paths").stderr.splitlines()
    assert len(lines) == len(said)
    for line, (name, (_, problem)) in zip(lines, said.items(), strict=True):
        assert f"models.{name}: " in line and problem in line
    assert "corpora.hub: " in dataset and "pip install 'reporter[datasets]'" in dataset
    # Where the packages are there, what else is wrong is found.
    monkeypatch.setattr("reporter.core.imports.find_spec", lambda name: "it is there")
    found = [line.split(": ")[1] for line in call("validate", "lost.yaml", "--paths").stderr.splitlines()]
    assert found == [f"models.{name}" for name in ("gone", "tuned", "spelt", "empty", "larger")]


def test_validate_looks_for_saved_states_lists_styles_and_templates(call: Call) -> None:
    Path("here.npz").write_bytes(b"")
    states = "{states: {c: %s}, role: encoder}"
    Path("lost.yaml").write_text(
        f"study: lost\nmodels:\n  m: {states % 'gone.npz'}\n  n: {states % 'here.npz'}\n"
        "corpora: {c: {texts: [a b c]}}\npairs: {concepts: {file: gone.yaml}}\n"
        "report: {style: gone.css, templates: gone}\n"
    )
    lines = call("validate", "lost.yaml", "--paths").stderr.splitlines()
    assert lines[0] == "lost.yaml:3:19: models.m.states.c: there is no file gone.npz"
    assert lines[1].startswith("lost.yaml:6:19: pairs.concepts: ") and lines[1].endswith("there is no such file")
    assert lines[2:] == [
        "lost.yaml:7:17: report.style: there is no file gone.css",
        "lost.yaml:7:38: report.templates: there is no folder gone",
    ]


def test_validate_looks_for_chat_templates(call: Call) -> None:
    for name, said in (("mute", "{}"), ("old", '{"chat_template": "x"}'), ("new", "{}")):
        Path(name).mkdir()
        for file in ("config.json", "model.safetensors", "tokenizer.json"):
            (Path(name) / file).write_text("{}")
        (Path(name) / "tokenizer_config.json").write_text(said)
    Path("new/chat_template.jinja").write_text("x")
    Path("talks.jsonl").write_text('{"messages": [{"role": "user", "content": "hi"}]}')
    models = "models: {mute: {path: mute}, old: {path: old}, new: {path: new}}\n"
    text = f"study: talks\n{models}corpora: {{c: {{file: talks.jsonl, chat: true}}}}\nmetrics: [motion]\n"
    Path("talks.yaml").write_text(text)
    (line,) = call("validate", "talks.yaml", "--paths").stderr.splitlines()
    assert "models.mute: its tokenizer has no chat template" in line and "chat_template.jinja" in line


def test_run_checks_every_study_before_it_does_anything(call: Call, replace: Callable[..., None]) -> None:
    replace("reporter.runs.runner", run_studies=lambda *_, **__: pytest.fail("a broken study was run"))
    result = call("run", "good.yaml", "bad.yaml")
    assert result.exit_code == 2
    assert result.stderr == "bad.yaml:2:25: models.m.dtyp: unknown key; did you mean 'dtype'?\n"
    assert sorted(path.name for path in Path().iterdir()) == ["bad.yaml", "good.yaml"], "nothing is written"


def test_plan_prints_the_plan(call: Call, replace: Callable[..., None]) -> None:
    def plan_study(file: Any, out: Path, offline: bool) -> SimpleNamespace:
        return SimpleNamespace(lines=lambda: [f"{file.study.study} {out} {offline}", "second"])

    replace("reporter.runs.planner", plan_study=plan_study)
    replace(
        "reporter.runs.plan", estimate=lambda plan, cache: SimpleNamespace(lines=lambda: ["takes", f"a while {cache}"])
    )
    assert (
        call("plan", "good.yaml", "--offline").stdout
        == f"good results True\nsecond\ntakes\na while {Path('results/cache')}\n"
    )


def test_report_renders_what_was_asked(call: Call, replace: Callable[..., None]) -> None:
    asked: list[Any] = []

    def render(database: Path, out: Path, studies: list[str] | None) -> list[Path]:
        asked.append((database, out, studies))
        return [out / "index.html"]

    replace("reporter.report", render=render)
    result = call("run", "--report-only")
    assert result.stdout == f"wrote 1 file; open {Path('results/index.html')}\n"
    call("run", "--report-only", "a", "b", "--out", "x")
    assert asked == [
        (Path("results/results.duckdb"), Path("results"), None),
        (Path("x/results.duckdb"), Path("x"), ["a", "b"]),
    ]


def test_sql_prints_what_the_store_answers(call: Call, replace: Callable[..., None]) -> None:
    replace("reporter.store", stream=lambda path, sql, format: iter([f"{path} ", f"{sql} {format}"]))
    assert call("sql", "SELECT 1").stdout == "results/results.duckdb SELECT 1 table\n"
    assert call("sql", "SELECT 1", "--format", "json").stdout == "results/results.duckdb SELECT 1 json\n"


@pytest.mark.parametrize(("error", "code"), [(ReporterError("no such model"), 1), (UsageError("no such query"), 2)])
def test_expected_failures_are_one_sentence_on_stderr(
    call: Call, replace: Callable[..., None], error: ReporterError, code: int
) -> None:
    def query(*_: Any) -> str:
        raise error

    replace("reporter.store", stream=query)
    result = call("sql", "SELECT 1")
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", f"{error}\n")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
        RuntimeError("can't start new thread"),
        RuntimeError("std::bad_alloc"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("hidden", [False, True])
def test_too_little_memory_is_one_sentence(
    call: Call, replace: Callable[..., None], error: Exception, hidden: bool
) -> None:
    def query(*_: Any) -> str:
        if hidden:
            raise AttributeError("partially initialized module") from error
        raise error

    replace("reporter.store", stream=query)
    found = call("sql", "SELECT 1")
    assert found.exit_code == 1 and found.stderr.count("\n") == 1 and "out of memory" in found.stderr


def test_a_bug_keeps_its_traceback(call: Call, replace: Callable[..., None]) -> None:
    def query(*_: Any) -> str:
        raise ZeroDivisionError

    replace("reporter.store", stream=query)
    assert isinstance(call("sql", "SELECT 1").exception, ZeroDivisionError)


def test_the_page_of_a_metric_says_what_claims_take_from_it(call: Call) -> None:
    page = " ".join(call("metrics", "convergence").stdout.split())
    assert "fixed by definition: 1 at the last layer; claims leave it out" in page
    assert "smallest effect: 0.01, up to which claims take a difference for none" in page
    assert "smallest effect: 1 % of the numbers' mean size, up to which" in " ".join(
        call("metrics", "motion").stdout.split()
    )


def test_metrics_lists_all(call: Call) -> None:
    output = call("metrics").stdout
    for metric in catalogue().values():
        assert f"{metric.name}: {metric.title} ({len(metric.statistics)} statistic" in output
        assert metric.summary in output


@pytest.mark.parametrize("name", list(catalogue()))
def test_a_metric_is_explained_in_full(call: Call, name: str) -> None:
    metric = catalogue()[name]
    output = " ".join(call("metrics", name).stdout.split())
    for statistic in metric.statistics:
        assert f"{name}.{statistic.name}: {statistic.title}" in output
        assert " ".join(f"definition: {statistic.definition}".split()) in output
        for source in statistic.works:
            assert " ".join(source.citation.split()) in output
        assert " ".join(statistic.trap.split()) in output
        if statistic.published:
            published = output.partition("In published code")[2]
            assert " ".join(f"{statistic.name}: {statistic.published}".split()) in published
        assert (f"{name}.{statistic.name}_floor" in output) == statistic.floor
    for option, field in metric.options.model_fields.items():
        assert f"{option} (default {field.default!r}): {field.description}" in output
    for observable in metric.needs:
        assert observable in output
    assert metric.cost and f"cost {metric.cost}"[:60] in output
    for table in tables_of(metric):
        for column in table.columns:
            assert f"{column.name}: {column.comment}"[:60] in output
    if metric.between is not None:
        names = [table.name for table in tables_of(metric)]
        own = {"change": "moved_tokens"}  # its numbers are a model's own, those of its base being what they are about
        assert own.get(name, "layer_pairs" if "models" in metric.between.of else "differences") in names


def test_a_word_that_is_no_metric_is_searched_for(call: Call) -> None:
    names = [line.partition(":")[0] for line in call("metrics", "norm").stdout.splitlines()]
    assert "motion.norm" in names and "variance.norm_of_mean" in names


def test_metrics_knows_the_plug_ins_of_a_study(call: Call, tmp_path: Path) -> None:
    assert call("metrics", "--new", "mine").exit_code == 0
    study = "study: s\nmodels: {m: {path: m}}\nplugins: [mine.py]\n"
    Path("study.yaml").write_text(study, "utf-8")
    assert call("metrics", "mine").exit_code == 2
    try:
        result = call("metrics", "mine", "--study", "study.yaml")
    finally:
        forget_plugins()
    assert result.exit_code == 0 and result.stdout.startswith("mine:")


def test_an_unknown_metric_is_a_wrong_call(call: Call) -> None:
    result = call("metrics", "convergense")
    assert result.exit_code == 2
    assert result.stderr == "unknown metric 'convergense'; did you mean 'convergence'?\n"


def test_schema_is_json_with_every_metric(call: Call) -> None:
    schema = json.loads(call("validate", "--schema").stdout)
    assert schema["properties"]["metrics"]["anyOf"][1]["items"]["anyOf"][0]["enum"] == list(catalogue())


def test_quick_verbs_import_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(GOOD)
    heavy = ["torch", "transformers", "pandas", "altair", "duckdb", "scipy", "sklearn", "rich"]
    code = (
        "import sys\nfrom reporter.app.cli import app\n"
        "try:\n    app()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        f"found = [name for name in {heavy} if name in sys.modules]\n"
        "assert not found, found\n"
    )
    for arguments in (
        ["--help"],
        ["validate", "good.yaml"],
        ["metrics", "motion"],
        ["validate", "--schema"],
        ["init", "new"],
        ["diff", "--help"],
    ):
        subprocess.run([sys.executable, "-c", code, *arguments], cwd=tmp_path, check=True, capture_output=True)


def test_the_installed_command_prints_to_the_right_streams(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(BAD)
    done = subprocess.run(
        [sys.executable, "-m", "reporter", "validate", "bad.yaml"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "bad.yaml:2:25: models.m.dtyp: unknown key; did you mean 'dtype'?\n"


def test_markup_and_control_characters_are_printed_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text('study: s\nmodels: {m: gpt2}\n"[red]x[/red]\\e[31m\\n": 1\n')
    done = subprocess.run(
        [sys.executable, "-m", "reporter", "validate", "odd.yaml"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stderr.startswith("odd.yaml:3:1: '[red]x[/red]\\x1b[31m\\n': unknown key")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("sent", "code", "said"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_signal_ends_it_with_its_code_and_one_line(tmp_path: Path, sent: int, code: int, said: str) -> None:
    (tmp_path / "good.yaml").write_text(GOOD)
    script = (
        # A shell that starts the tests in the background has them ignore SIGINT, and children inherit that.
        "import signal, sys, time, types\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def wait(*_, **__):\n    print('waiting', flush=True)\n    time.sleep(60)\n"
        "sys.modules['reporter.runs.runner'] = types.SimpleNamespace(run_studies=wait)\n"
        "from reporter.app.cli import main\nmain()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, "run", "good.yaml"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(sent)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == code
    assert errors == f"{said}; finished work is saved; rerun the same command to resume\n"


def test_ctrl_c_ends_a_query_at_once(tmp_path: Path) -> None:
    from reporter.store import Store

    (tmp_path / "results").mkdir()
    Store(tmp_path / "results" / "results.duckdb").put("studies", ["study"], {"study": "s"})
    script = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    script += "from reporter.app.cli import main\nmain()"
    endless = "SELECT range FROM range(10) UNION ALL SELECT levenshtein(repeat('ab', 200000), repeat('ba', 200000))"
    with subprocess.Popen(
        [sys.executable, "-c", script, "sql", endless, "--format", "csv"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        time.sleep(5)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert errors == "interrupted; finished work is saved; rerun the same command to resume\n"


def test_a_reader_that_goes_away_is_no_reason_to_complain(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "reporter", "validate", "--schema"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
    assert errors == b""


def test_a_terminal_without_unicode_is_no_reason_to_fail(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(
        [sys.executable, "-m", "reporter", "metrics", "intrinsic_dimension"],
        cwd=tmp_path,
        capture_output=True,
        env=environment,
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("written", ["", " ", ",", " , "])
def test_an_option_for_names_without_a_name_does_not_mean_everything(tmp_path, written):
    file = tmp_path / "s.yaml"
    file.write_text("study: s\nmodels: {m: {path: nowhere}}\ncorpora: {c: {texts: [a]}}\n", "utf-8")
    done = CliRunner().invoke(app, ["run", str(file), "--only", written, "--out", str(tmp_path / "out")])
    assert done.exit_code == 2 and "--only" in done.stderr and "names nothing" in done.stderr
    assert not (tmp_path / "out").exists()
