"""What the pages show is run, so that it cannot go stale.

A block marked ``yaml`` is a whole study, ``python`` and ``sql`` run beside the results of a small one. What is marked
otherwise (``yml``, ``py``) is a part of something.
"""

import re
import shlex
from pathlib import Path

import pytest
import typer
import yaml

import reporter
from reporter.app.cli import app
from reporter.metrics.base import METRICS
from reporter.runs.studies import offer
from reporter.study import load_study

ROOT = Path(__file__).resolve().parents[3]
FILES = [*sorted((ROOT / "reporter/app/docs/pages").glob("*.md")), ROOT / "README.md"]
PAGES = {path.stem: path.read_text("utf-8") for path in FILES}
README = PAGES["README"]
ELSEWHERE = {"extending"}  # followed by tests/test_contributing.py
STUDY = """
study: small
models: {small: {recipe: {architecture: gpt2, layers: 2, width: 16, heads: 2, train_on: c, steps: 0}}}
corpora: {c: {generate: grammar, texts: 40, words: [5, 12]}}
metrics: [anisotropy, intrinsic_dimension]
views: [text tokens, without sinks]
claims:
  a: {says: It has one., value: {metric: intrinsic_dimension.twonn, model: small, layer: last}, above: 1}
"""


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGES[page], re.MULTILINE | re.DOTALL)


def everywhere(language):
    found = [(page, block) for page in PAGES if page not in ELSEWHERE for block in blocks(page, language)]
    assert found
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory, bare_runs):
    """A folder with a study and its results."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "study.yaml").write_text(STUDY, "utf-8")
    other = STUDY.replace("study: small", "study: other").replace("steps: 0}", "steps: 2, checkpoints: [0, 2]}")
    reporter.run(folder / "study.yaml", folder / "results")
    with bare_runs():
        reporter.run(yaml.safe_load(other), folder / "results")
    return folder


def test_the_studies_are_valid(tmp_path):
    for page, text in everywhere("yaml"):
        (tmp_path / f"{page}.yaml").write_text(text, "utf-8")
        assert load_study(tmp_path / f"{page}.yaml", offer()).study.models


def test_the_python_blocks_run(place, monkeypatch):
    monkeypatch.chdir(place)
    found = {}
    try:
        for page, text in everywhere("python"):
            found[page] = {"__name__": "__main__"}
            exec(compile(text, page, "exec"), found[page])
    finally:
        METRICS._entries.pop("centre", None)
    for page in ("python", "README"):
        assert list(found[page]["results"].claims["verdict"].unique()) == ["supported"]
    numbers = found["python"]["measured"].layer_metrics.query("statistic == 'twonn'")
    assert list(numbers["layer"]) == [0, 1, 2, 3] and numbers["value"].between(10, 40).all()


@pytest.mark.parametrize(("page", "query"), everywhere("sql"))
def test_the_questions_have_answers(place, page, query):
    answer = reporter.open(place / "results").sql(query)
    assert len(answer) or "status <> 'done'" in query
    # Two studies, one with two checkpoints, two token sets: a row that cannot be told from another mixes them.
    assert not answer.select_dtypes(exclude="float").duplicated().any()


def test_the_messages_of_the_page_of_errors_are_in_the_program():
    program = "\n".join(path.read_text("utf-8") for path in (ROOT / "reporter").rglob("*.py"))
    messages = [(a or b).strip() for a, b in re.findall(r"^\| (?:``(.+?)``|`(.+?)`) \|", PAGES["errors"], re.MULTILINE)]
    assert len(messages) > 40
    for message in messages:
        for clause in re.split(r"config\.json|[…',;:\d]", message):  # each has three words that are not filled in
            words = clause.strip(" .").split()
            runs = [" ".join(words[i : i + 3]) for i in range(len(words) - 2)]
            assert not runs or any(run in program for run in runs), message


def test_every_verb_is_described_and_every_page_and_test_that_is_promised_is_there():
    described = set(re.findall(r"^\| `reporter (\w+)", PAGES["commands"], re.MULTILINE))
    assert described == {command.name or command.callback.__name__ for command in app.registered_commands}
    promised = set(re.findall(r"\]\(([\w-]+)\.md", "".join(text for page, text in PAGES.items() if page != "README")))
    assert promised <= {*PAGES, "keys", "tables", "glossary", "python-names", "contributing", "first-study"}
    named = set(re.findall(r"`(tests/[\w/]+\.(?:py|md))`", PAGES["reliability"]))
    assert len(named) > 20 and not [name for name in named if not (ROOT / name).is_file()]


def test_every_command_that_a_page_shows_is_one_of_the_program():
    """Subcommand and options parse; a page may name a command without its arguments."""
    program = typer.main.get_command(app)
    shown = "\n".join([*PAGES.values(), (ROOT / "studies/quickstart.md").read_text("utf-8")]).replace("\\|", " ")
    found = re.findall(
        r'`reporter (?!COMMAND)([^`]+)`|^(?:\$ | *- run: )?reporter ((?:[^"\n]|"[^"]*")*)', shown, re.MULTILINE
    )
    for text in map("".join, found):
        words = shlex.split(re.sub(r"\b(N|DIFFERENCE)$", "1", re.split(r" [|>]", text)[0]), comments=True)
        name, command, rest = program.resolve_command(typer.Context(program), words)
        try:
            command.make_context(name, rest)
        except Exception as error:  # of typer's own copy of click, or of click
            assert type(error).__name__ == "MissingParameter", (text, error)
    assert len(found) > 100


def test_pictures_are_small_shown_and_have_colours_for_both_themes():
    folder = ROOT / "reporter/app/docs/pages/pictures"
    files = {path.name: path.read_text("utf-8") for path in folder.iterdir()}
    guides = [*PAGES.values(), (ROOT / "studies/quickstart.md").read_text("utf-8")]
    shown = [name for text in guides for name in re.findall(r"!\[[^\]]{20,}\]\(\S*?pictures/(\S+?)\)", text)]
    assert set(shown) == set(files) and len(shown) >= 6 and sum(map(len, files.values())) < 300_000
    for name, svg in files.items():
        style, _, drawing = svg.partition("</style>")
        colours = set(re.findall(r'\b(?:fill|stroke)="(#[0-9a-f]+)"', drawing))
        assert len(svg) < 60_000 and "prefers-color-scheme:dark" in style and len(colours) > 4
        assert not [colour for colour in colours if f'="{colour}"' not in style], name
        assert not re.search(r"https?://(?!www\.w3\.org)", svg), name


def test_one_line_installs_the_program_everywhere():
    line = "pip install 'layer-reporter[docs] @ git+ADDRESS'"
    text = "\n".join(PAGES.values())
    named = re.findall(r"pip install [^`#\n]*", text)
    of_program = [command for command in named if "'layer-reporter[" not in command or "@" in command]
    assert {command.strip() for command in of_program if ".venv" not in command and " -q " not in command} == {line}
    assert text.count(line) == 4


def test_the_readme_is_short_and_shows_what_a_stored_run_printed():
    """The file holds what the commands printed for MiniLM and SmolLM2, in full."""
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert len(links) > 8 and not [link for link in links if not (ROOT / link).is_file()]
    stored = " ".join((ROOT / "tests/readme_run.txt").read_text("utf-8").split())
    parts = [part for block in blocks("README", "text") for part in block.split("\n  …\n")]
    assert len(parts) >= 3 and not [part for part in parts if " ".join(part.split()) not in stored]
    assert len(README.splitlines()) <= 120 and len(README.split()) <= 900
