"""The command line: what it prints, to which stream, and how it exits."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from reporter import __version__
from reporter.app.cli import app, sql
from reporter.app.docs.reference import tables_of
from reporter.core.errors import ReporterError, UsageError
from reporter.metrics._intervals import METHODS
from reporter.metrics.base import catalogue

GOOD = "study: good\nmodels: {m: gpt2}\ncorpora: {c: {texts: [a]}}\n"
BAD = "study: bad\nmodels: {m: {hub: gpt2, dtyp: auto}}\n"
BAD_LINE = "bad.yaml:2:25: models.m.dtyp: unknown key; did you mean 'dtype'?\n"
COMMANDS = "look init validate plan run merge verify cache answer sql diff metrics docs export"


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Call the command in a folder that holds ``good.yaml`` and ``bad.yaml``."""
    monkeypatch.chdir(tmp_path)
    Path("good.yaml").write_text(GOOD)
    Path("bad.yaml").write_text(BAD)
    return lambda *arguments: CliRunner().invoke(app, list(arguments), prog_name="reporter")


@pytest.fixture
def runs(monkeypatch):
    """Stand in for runs; nothing runs, and the exit status is 1."""
    run_studies = Mock(return_value=SimpleNamespace(exit_code=1))
    monkeypatch.setitem(sys.modules, "reporter.runs.runner", SimpleNamespace(run_studies=run_studies))
    return run_studies


def test_help_fits_one_screen_names_every_command_and_describes_every_option(call):
    result = call("--help")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    assert [line[9:].split()[0] for line in lines[lines.index("Commands:") + 1 :]] == COMMANDS.split()
    assert "..." not in result.stdout.partition("Commands:")[2]  # each summary fits its line
    assert call("--version").stdout == f"reporter {__version__}\n"
    for command in COMMANDS.split():
        lines = call(command, "--help").stdout.splitlines()
        options = [line.split() for line in lines if line.startswith("  -")]
        assert options and all(len(words) > 2 for words in options), f"{command} has an option without a description"


def test_the_help_of_run_has_the_options_of_clusters_apart(call):
    everyday, cluster = call("run", "--help").stdout.split("\nSeveral processes or machines:\n")
    assert all(name in everyday for name in ("--only", "--set", "--strict", "--report-only", "--help", "SPEC"))
    assert re.findall(r"^  (--\w+)", cluster, re.MULTILINE) == ["--workers", "--engine", "--address", "--share"]


def test_a_wrong_call_exits_with_2_and_writes_nothing(call):
    for arguments, problem in (
        ("run good.yaml --share 1/2 --force", "--share takes one SPEC"),
        ("run good.yaml --only ,", "--only ',' has no name in it"),
        ("cache --study good", "does not exist; run `reporter run STUDY` first"),
        ("export good.yaml --site a --guard", "--site and --guard cannot be combined"),
        ("export good.yaml bad.yaml", "only --site takes several studies"),
        ("export good.yaml --url https://example.org", "--url needs --site"),
        ("export good.yaml --only motion", "--only needs --guard"),
        ("sql", "missing QUERY"),
        ("sql SELECT", "results/results.duckdb does not exist; run `reporter run STUDY` first"),
        ("metrics convergense", "unknown metric 'convergense'; did you mean 'convergence'?\n"),
        ("sql SELECT --format xml", "Usage: reporter"),
        ("run good.yaml bad.yaml", BAD_LINE),
        ("run good.yaml --out good.yaml", "the results folder good.yaml cannot be written: "),
        ("run good.yaml --out good.yaml/results", "the results folder good.yaml/results cannot be written: "),
        ("plan good.yaml --detect -1", "--detect"),
        ("validate good.yaml --set run.sed=7", "--set run.sed=7: run.sed: "),
        ("init good.yaml", "good.yaml exists already; choose another name"),
    ):
        result = call(*arguments.split())
        assert (result.exit_code, result.stdout) == (2, "") and problem in result.stderr, arguments
        assert sorted(path.name for path in Path().iterdir()) == ["bad.yaml", "good.yaml"], arguments


def test_validate_looks_at_every_file_and_counts_what_a_study_has(call):
    result = call("validate", "bad.yaml", "good.yaml", "none.yaml")
    assert result.exit_code == 2
    metrics = sum(not metric.optional for metric in catalogue().values())
    counts, few, remote, power = result.stdout.splitlines()
    assert few.startswith("  corpus 'c' has 1 text; a verdict needs 12, an interval 5: add texts")
    assert remote == "  not looked at: 1 model of the hub"
    assert counts == f"good.yaml: ok (1 model, 1 corpus, {metrics} metrics)"
    assert "`reporter plan good.yaml --detect DIFFERENCE`" in power
    first, second = result.stderr.splitlines(keepends=True)
    assert first == BAD_LINE and second.startswith("none.yaml: there is no such file; check the path")


def test_plan_exits_with_1_if_a_cell_cannot_run_and_measures_a_pilot_if_no_number_says_what_texts_detect(call, runs):
    Path("plan.yaml").write_text(GOOD.replace("gpt2", "{path: nowhere}") + "metrics: [motion]\n")
    result = call("plan", "plan.yaml")
    assert result.exit_code == 1 and "1 cannot run\n  failed  m × final × c × motion  model 'm'" in result.stdout
    assert "there is no folder" in result.stdout and "nothing to measure" not in result.stdout
    Path("a").mkdir()
    corpora = {"many": {"texts": [f"text {number}" for number in range(30)]}, "few": {"texts": ["x", "y"]}}
    study = {"study": "s", "models": {"a": {"path": "a"}}, "corpora": corpora, "metrics": ["motion"]}
    Path("plan.yaml").write_text(json.dumps(study))
    assert "plan.yaml --detect DIFFERENCE`" in call("plan", "plan.yaml").stdout and not runs.called
    assert "20 texts give no number an interval" in call("plan", "plan.yaml", "--detect", "0.1").stdout
    ((file,), out) = runs.call_args.args
    assert {name: corpus.limit for name, corpus in file.study.corpora.items()} == {"many": 20, "few": 2}
    assert out == Path("results/pilot")


def test_change_needs_a_model_with_a_base(call):
    text = "study: s\nmodels: {{a: {{hub: a}}, b: {{hub: b{}}}}}\ncorpora: {{c: {{texts: [x]}}}}\nmetrics: {}\n"
    for base, metrics, code, says in (
        ("", "[motion, change]", 2, "add `base: NAME`"),
        ("", "[change: {}]", 2, "add `base: NAME`"),
        (", base: a", "[change]", 0, ""),
        ("", "all", 0, ""),
    ):
        Path("change.yaml").write_text(text.format(base, metrics))
        result = call("validate", "change.yaml")
        assert result.exit_code == code and says in result.stderr
        assert result.stderr.startswith("change.yaml:4:") == bool(says)


DEFAULTS = dict.fromkeys(("strict", "engine", "workers", "address"))
DEFAULTS |= {"only": (), "force": False, "offline": False, "ahead": True}


def test_run_hands_over_its_options_and_the_study_with_keys_that_are_set_and_exits_with_the_outcome(call, runs):
    for arguments, changes in (
        ("", {}),
        ("--only m --only c", {"only": ("m", "c")}),
        ("--force --offline", {"force": True, "offline": True}),
        ("--strict", {"strict": "refuted"}),
        ("--strict=inconclusive", {"strict": "inconclusive"}),
    ):
        assert call("run", *arguments.split(), "good.yaml", "--out", "there").exit_code == 1
        ((file,),), options = runs.call_args
        assert file.study.study == "good" and options == DEFAULTS | {"out": Path("there")} | changes
    call("run", "good.yaml", "--set", "title=Mine", "--set", "run.seed=7")
    ((file,),), options = runs.call_args
    assert options["out"] == Path("results")
    assert (file.study.title, file.study.run.seed) == ("Mine", 7)
    assert "title: Mine" in file.text  # what is hashed and stored


def assert_problems(call, files, text, expected):
    """Write files and a study, and assert where and how ``validate`` complains; return what it prints."""
    for name, content in (files | {"lost.yaml": text}).items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(content)
    result = call("validate", "lost.yaml")
    assert result.exit_code == (2 if result.stderr else 0)
    for line, (place, *words) in zip(result.stderr.splitlines(), expected, strict=True):
        assert line.startswith(f"lost.yaml:{place}") and all(word in line for word in words), line
    return result.stdout


def model_files(folder, config="{}"):
    return {f"{folder}/config.json": config, f"{folder}/model.safetensors": "{}", f"{folder}/tokenizer.json": "{}"}


TABLE, CHAT = "file: t.csv, column: text, label: mood", "file: t.jsonl, chat: true"
FILES = model_files("mute") | model_files("old") | model_files("new") | {
    "mute/tokenizer_config.json": "{}", "old/tokenizer_config.json": '{"chat_template": "x"}',
    "new/chat_template.jinja": "x", "here.npz": "", "there.gguf": "GGUF", "here": "a file", "own/own.txt": "a text",
    "lora/adapter_config.json": "{}", "look.css": "", "empty.txt": "", "t.csv": "text,mood\na b,joy\nc d e,fear\n",
    "t.jsonl": '{"messages": [{"role": "user", "content": "a b"}]}\n',
}  # fmt: skip
MODELS = (  # the keys of a model, and what is wrong with it
    ("path: nowhere", "there is no folder ", "nowhere; check the path"),
    ("path: gone.gguf", "there is no file "),
    ("hub: owner/base, adapter: loar", "lora'?"),
    ("hub: owner/base, adapter: lora", "lora has no adapter_model.safetensors"),
    ("states: {c0: gone.npz}, role: encoder", ".states.c0: there is no file gone.npz"),
    ("states: {c0: here.npz}, role: encoder",),
    ("path: mute", "its tokenizer has no chat template", "chat_template.jinja"),
    *(("path: old",), ("path: new",)),
    ("path: there.gguf", "optional package gguf; ", "pip install 'layer-reporter[gguf]'"),
    ("hub: owner/base, device_map: auto, offload_folder: here/in", "'layer-reporter[split]'"),
)
CORPORA = (
    ("file: no.txt", "no.txt"),
    ("file: empty.txt", "has no texts; add some"),
    ("file: t.csv, column: text, label: mod", "no column 'mod' for `label`; did you mean"),
    (f"{TABLE}, min_words: 5", ".min_words: no text of t.csv passes the filters: 2 ", "(5); lower `min_words`"),
    (f"{TABLE}, max_words: 1", ".max_words: ", "raise `max_words`"),
    (f"{TABLE}, only: [joy, feer]", ".only[1]: no text of t.csv has the label 'feer'; did you mean 'fear'?"),
    (f"{TABLE}, limit: 1, by: [joy, feer]", ".by[1]: ", "label 'feer'; did you mean 'fear'?"),
    (f"{TABLE}, limit: 1, only: [joy, later]",),  # behind the limit such a label may come
    (f"{CHAT}, role: usr", ".role: no turn has the role 'usr'; did you mean 'user'?"),
    (f"{CHAT}, by: [user, tool]", ".by[1]: no turn has the role 'tool'; roles: user"),
    ("dataset: own, column: x",),
    ("dataset: owner/texts, column: text", "pip install 'layer-reporter[datasets]'"),
)


def test_validate_can_look_for_what_a_study_names(call, monkeypatch):
    monkeypatch.setattr("reporter.core.imports.find_spec", lambda name: None)
    lines, expected = ["study: lost"], []
    for section, rows in (("models", MODELS), ("corpora", CORPORA)):
        lines.append(f"{section}:")
        for i, (keys, *words) in enumerate(rows):
            lines.append(f"  {section[0]}{i}: {{{keys}}}")
            expected += [(f"{len(lines)}:", f": {section}.{section[0]}{i}", *words)] if words else []
    lines += ["run: {device: 'cuda:99'}", "pairs: {concepts: {file: gone.yaml}}"]
    lines += ["report: {style: loo.css, templates: gone}"]
    expected += [
        (f"{len(lines) - 1}:19: pairs.concepts: ", "there is no such file"),
        (f"{len(lines)}:17: report.style: there is no file loo.css", "look.css'?"),
        (f"{len(lines)}:37: report.templates: there is no folder gone",),
    ]
    assert_problems(call, FILES, "\n".join(lines), expected)
    # Where the packages are there, what else is wrong is found.
    monkeypatch.setattr("reporter.core.imports.find_spec", lambda name: "it is there")
    expected = [line[:2] for line in expected if "pip install" not in line[-1]]
    assert_problems(call, FILES, "\n".join(lines), expected)


def test_validate_names_the_limit_that_cuts_texts(call):
    study = GOOD.replace("gpt2", "{path: model}").replace("[a]}}", "[a], max_tokens: 5000}, d: {texts: [a b]}}")
    shown = assert_problems(call, model_files("model", '{"n_ctx": 512}'), study, []).splitlines()
    assert "corpus 'c': max_tokens is 5,000, but model 'm' takes at most 512 tokens" in shown[1]


def test_a_report_alone_is_of_all_studies_or_of_those_that_are_named(call, monkeypatch):
    render = Mock(side_effect=lambda *arguments: [arguments[1] / "index.html"])
    monkeypatch.setitem(sys.modules, "reporter.report", SimpleNamespace(render=render))
    for more, out, studies in ((), "results", None), (("a", "b", "--out", "x"), "x", ["a", "b"]):
        assert call("run", "--report-only", *more).stdout == f"wrote 1 file; open {Path(out) / 'index.html'}\n"
        render.assert_called_with(Path(out, "results.duckdb"), Path(out), studies)


def test_expected_failures_are_one_sentence_on_stderr_and_a_bug_keeps_its_traceback(call, monkeypatch):
    query, caused = Mock(), AttributeError("partially initialized module")
    caused.__cause__ = RuntimeError("std::bad_alloc")
    monkeypatch.setitem(sys.modules, "reporter.store", SimpleNamespace(stream=query))
    for query.side_effect, code, says in (
        (ReporterError("no such model"), 1, "no such model\n"),
        (UsageError("no such query"), 2, "no such query\n"),
        (MemoryError(), 1, "out of memory"),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), 1, "out of memory"),
        (OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), 1, "out of memory"),
        (RuntimeError("can't start new thread"), 1, "out of memory"),
        (caused, 1, "out of memory"),
    ):
        result = call("sql", "SELECT 1")
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (code, "", 1) and says in result.stderr
    query.side_effect = ZeroDivisionError()
    assert call("sql", "SELECT 1").exception is query.side_effect


def test_sql_writes_values_as_they_are_with_equal_line_ends_and_a_terminal_shows_controls(call, monkeypatch):
    query = Mock(side_effect=lambda *_, **__: iter(["text\n", "\x1b[31mred\x9b\n1"]))
    monkeypatch.setitem(sys.modules, "reporter.store", SimpleNamespace(stream=query))
    assert call("sql", "SELECT 1", "--format", "csv").stdout_bytes == "text\n\x1b[31mred\x9b\n1\n".encode()
    monkeypatch.setattr(sys, "stdout", terminal := StringIO())
    terminal.isatty = lambda: True
    sql("SELECT 1", format="csv")
    assert terminal.getvalue() == "text\n\\x1b[31mred\\x9b\n1\n"


def test_metrics_lists_all_searches_for_a_word_that_is_none_and_explains_one_in_full(call):
    listed = call("metrics").stdout
    for name, metric in catalogue().items():
        assert f"{name}: {metric.title} ({len(metric.statistics)} statistic" in listed and metric.summary in listed
        page = " ".join(call("metrics", name).stdout.split())
        parts = [f"cost {metric.cost}"[:60], *metric.needs]
        for statistic in metric.statistics:
            parts += [f"{name}.{statistic.name}: {statistic.title}", f"definition: {statistic.definition}"]
            parts += [statistic.trap, statistic.published or "", *(source.citation for source in statistic.works)]
            assert (f"{name}.{statistic.name}_floor" in page) == statistic.floor
        for option, field in metric.options.model_fields.items():
            parts.append(f"{option} (default {field.default!r}): {field.description}")
        parts += [f"{column.name}: {column.comment}"[:60] for table in tables_of(metric) for column in table.columns]
        assert not [part for part in parts if " ".join(part.split()) not in page]
    names = [line.partition(":")[0] for line in call("metrics", "norm").stdout.splitlines()]
    assert "motion.norm" in names and "variance.norm_of_mean" in names
    page = " ".join(call("metrics", "convergence").stdout.split())
    assert "fixed by definition: 1 at the last layer" in page and "minimum meaningful difference: 0.01" in page
    assert f"Bootstrap: {METHODS['Bootstrap']}" in page and "Jackknife: " not in page, "methods that it uses, once"


def test_init_writes_a_study_that_validates_and_markup_in_a_study_is_printed_as_it_is(call):
    assert "`reporter init quickstart`" in call("validate", "quickstart.yaml").stderr
    for name in ("study", "quickstart"):
        assert call("init", name).stdout == f"wrote {name}.yaml\n"
        assert call("validate", f"{name}.yaml").exit_code == 0
    assert "instead: reporter init quickstart" in call("init", "quikstart").stdout
    Path("odd.yaml").write_text('study: s\nmodels: {m: gpt2}\n"[red]x[/red]\\e[31m\\n": 1\n')
    (line,) = call("validate", "odd.yaml").stderr.splitlines()
    assert line.startswith("odd.yaml:3:1: '[red]x[/red]\\x1b[31m\\n': unknown key")


MAIN = "from reporter.app.cli import main\nmain()\n"


def start(folder, *arguments, script=MAIN):
    """Start the command in a process of its own; what the script prints first has come."""
    # A shell that starts the tests in the background has them ignore SIGINT, and children inherit that.
    code = f"import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n{script}"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=folder, text=True, **pipes)


WAITS = """
import sys, time, types
def wait(*_, **__):
    print('waiting', flush=True)
    time.sleep(60)
sys.modules['reporter.runs.runner'] = types.SimpleNamespace(run_studies=wait)
"""
ASKS = """
from reporter.store import sandbox
ask = sandbox._QueryProcess.ask
def asked(self, *question):
    print('waiting', flush=True)
    return ask(self, *question)
sandbox._QueryProcess.ask = asked
"""
ENDLESS = "SELECT levenshtein(repeat('ab', 200000), repeat('ba', 200000))"


def test_a_signal_ends_it_at_once_with_its_code_and_one_line(tmp_path, empty):
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "results").mkdir()
    shutil.copy(empty, tmp_path / "results")
    for arguments, script, number, code, word in (
        (["run", "good.yaml"], WAITS, signal.SIGTERM, 143, "terminated"),
        (["sql", ENDLESS], ASKS, signal.SIGINT, 130, "interrupted"),
    ):
        with start(tmp_path, *arguments, script=f"{script}{MAIN}") as process:
            assert process.stdout.readline() == "waiting\n"
            time.sleep(1)
            process.send_signal(number)
            _, errors = process.communicate(timeout=20)
        line = f"{word}; finished work is saved; rerun the same command to resume\n"
        assert (process.returncode, errors) == (code, line)


def test_the_schema_has_every_metric_and_a_reader_that_goes_away_is_no_reason_to_complain(call, tmp_path):
    schema = json.loads(call("validate", "--schema").stdout)
    assert schema["properties"]["metrics"]["anyOf"][1]["items"]["anyOf"][0]["enum"] == ["all", *catalogue()]
    with start(tmp_path, "validate", "--schema") as process:
        process.stdout.close()
        assert process.stderr.read() == ""


def test_the_installed_command_prints_to_the_right_streams_of_a_terminal_without_unicode(tmp_path):
    (tmp_path / "bad.yaml").write_text(BAD)
    options = {"cwd": tmp_path, "env": os.environ | {"PYTHONIOENCODING": "latin-1"}, "encoding": "latin-1"}
    for call, result in (("validate bad.yaml", (2, BAD_LINE)), ("metrics intrinsic_dimension", (0, ""))):
        done = subprocess.run([sys.executable, "-m", "reporter", *call.split()], capture_output=True, **options)
        assert (done.returncode, done.stderr) == result and bool(done.stdout) == (not done.returncode)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    ("call", "streams", "code", "says"),
    [
        ("init new", ">&-", 0, ""),
        ("init new", "2>&-", 0, "wrote new.yaml\n"),
        ("init new", "<&- >&- 2>&-", 0, ""),
        ("init old", ">&- 2>&-", 2, ""),
        ("init new", ">/dev/full", 1, "the output cannot be written: No space left on device\n"),
        ("--help", ">/dev/full", 1, "the output cannot be written: No space left on device\n"),
        ("init old", "2>/dev/full", 2, ""),
    ],
)
def test_closed_and_full_streams_end_no_work_and_change_no_exit_code(tmp_path, call, streams, code, says):
    (tmp_path / "old.yaml").write_text("study: old")
    command = f"{sys.executable} -m reporter {call} {streams}"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (code, says)
    new = tmp_path / "new.yaml"
    assert not new.exists() or new.read_text().startswith("#"), "no stream has the number of a file"


def test_names_and_values_are_utf8_under_every_locale(tmp_path):
    (tmp_path / "tëxt 👩.txt").write_text("a b\nc d\n", "utf-8")
    study = "study: s\nmodels: {m: gpt2}\ncorpora: {c: {file: tëxt 👩.txt}}\nmetrics: [anisotropy]\n"
    (tmp_path / "stüdy.yaml").write_text(study, "utf-8")
    ascii_only = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "reporter", "validate", "stüdy.yaml"]
    done = subprocess.run(command, cwd=tmp_path, env=ascii_only, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode("utf-8").startswith("stüdy.yaml: ok")
