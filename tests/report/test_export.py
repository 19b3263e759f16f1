"""What an export leaves: figures of a true size, tables, LaTeX that compiles, references."""

import json
import re
import shutil
import struct
import subprocess
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from report.made_up import MODELS, fill
from report.reading import read, rows_of

from reporter.core.errors import UsageError
from reporter.core.numbers import estimate
from reporter.report import export as writing
from reporter.report.export import Wanted, export
from reporter.report.paper_comparison import _reasons
from reporter.store import Store

SVG = "{http://www.w3.org/2000/svg}"
ONE = "anisotropy.top_variance_share"
FIGURE = "figures/anisotropy-top_variance_share.svg"
EXHIBITED = ("sentences.pair-points", "sentences.groups", "sentences.concepts", "sentences.directions")
EXHIBITED += ("sentences.separability", "sentences.cloud-histograms", "sentences.cloud-explained", "sentences.probes")
EXHIBITED += ("static.extremes", "static.position-cosines", "static.position-offsets", "static.position-norms")
KINDS = (f"{ONE}.training", "layer_pairs.pairs", "convergence.differences", "spectrum.curves")


@pytest.fixture(scope="module")
def exported(drawn, tmp_path_factory):
    """Returns a function that exports the study that is drawn, which is read once, into a new folder."""
    folder, contents = drawn

    def export_drawn(name, *figures, **more):
        to = tmp_path_factory.mktemp(name)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(writing, "read_study", lambda *_: contents)
            export("whole", folder, to, Wanted(figures, **more))
        return to

    return export_drawn


@pytest.fixture(scope="module")
def torn(tmp_path_factory):
    """A results folder whose study has names that would act in SVG and in LaTeX."""
    folder = tmp_path_factory.mktemp("results")
    models = (("</text><script>alert(1)</script>\x1b", "encoder", 4, 64, (None,)), MODELS[1])
    fill(folder / "results.duckdb", "torn", title="50 % of $x_1 & \\more{", models=models, metrics=("anisotropy",))
    return folder


@pytest.fixture(scope="module")
def narrow(exported):
    """A figure for one column of a paper, in every format, without words that LaTeX says."""
    return exported("narrow", ONE, formats=("svg", "pdf", "png"), width=85, font_size=7)


@pytest.fixture(scope="module")
def wide(exported):
    """A figure for both columns that says everything, of another choice, and figures of other kinds."""
    choice = {"view": "without sinks", "baselines": "with"}
    return exported("wide", ONE, *KINDS, formats=("svg",), width=170, choose=choice, bare=False)


def texts(path):
    return " ".join(" ".join(text.itertext()) for text in ET.parse(path).iter(f"{SVG}text"))


def test_a_figure_is_as_wide_and_its_labels_are_as_high_as_was_asked_for_in_every_format(narrow, wide):
    figure = narrow / FIGURE
    root = ET.parse(figure).getroot()
    points = re.search(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", figure.with_suffix(".pdf").read_bytes())
    sides = [float(root.get(side).removesuffix("mm")) for side in ("width", "height")]
    assert sides[0] == 85
    assert [float(point) * 25.4 / 72 for point in points.groups()] == pytest.approx(sides, abs=0.0035)
    png = figure.with_suffix(".png").read_bytes()
    width, _ = struct.unpack(">II", png[16:24])
    per_metre = struct.unpack(">I", png[png.index(b"pHYs") + 4 :][:4])[0]
    assert width / per_metre == pytest.approx(0.085, abs=0.0003)  # what the file says of itself
    assert per_metre == pytest.approx(300 / 0.0254, abs=1)
    for folder, font, width in ((narrow, 7, 85), (wide, 8, 170)):
        root = ET.parse(folder / FIGURE).getroot()
        across = float(root.get("viewBox").split()[2])
        labels = [text for text in root.iter(f"{SVG}text") if re.fullmatch(r"0\.\d+", "".join(text.itertext()))]
        assert labels and {text.get("font-size") for text in labels} == {"11px"}
        assert 11 * width / across == pytest.approx(font * 25.4 / 72, rel=1e-4)


def test_a_figure_says_everything_and_a_bare_one_leaves_its_words_to_latex(wide, narrow):
    words = texts(wide / FIGURE)
    assert re.search(r"Figure \d+\. Variance explained by the first principal component", words)
    parts = ("bert", "gpt2", "relative depth", "without attention sinks", "n = ", "Study whole, reporter", "embedding")
    assert not [part for part in parts if part not in words]
    words, tex = texts(narrow / FIGURE), read(narrow / "figures.tex")
    assert "Figure" not in words and "embedding" not in words and "bert" in words
    assert "variance explained by PC 1" in words, "the value axis has a title"
    assert "after the final norm" in words and "after the final norm" not in tex, "the figure explains the hollow mark"
    assert r"\begin{figure}[tp]" in tex and r"\fi]{figures/anisotropy-top_variance_share}" in tex
    assert "Variance explained by the first principal component" in tex and "Figure " not in tex
    assert r"$\lambda_1 / \sum\lambda$" in tex and "the tokens of the text itself" in tex
    assert r"~\cite{razzhigaev2024shape}" in tex
    assert not re.search(r"Axis:|Tokens:|baselines", tex), "no word of the page's controls"


def test_models_are_compared_in_a_table_of_estimates(narrow, wide):
    for folder, table in ((narrow, r"\begin{table}"), (wide, r"\begin{table*}")):
        tex = read(folder / "tables" / "compared.tex")
        assert table in tex and r"\label{tab:compared}" in tex and r"\toprule" in tex
        assert not re.search(r"\d\.\d{5}", tex)
    rows = [row for row in rows_of(read(wide / "tables" / "compared.csv")) if ONE.endswith(f".{row['statistic']}")]
    rows = [row for row in rows if row["span"] == "mean" and not row["minus"] and not row["side"].endswith("coders")]
    for view, name in (("text tokens", "compared"), ("without sinks", "compared-nested-without-sinks")):
        (line,) = re.findall("Variance explained by the first .*", read(wide / "tables" / f"{name}.tex"))
        shown = [row for row in rows if (row["corpus"], row["view"]) == ("nested", view)]
        numbers = [estimate(float(row["value"]), float(row["ci_low"]), float(row["ci_high"])) for row in shown]
        cells = [" ".join(cell) for cell in re.findall(r"(\S+) \\mbox{(.*?)}", line)]
        assert len(cells) == 3 and sorted(cells) == sorted(numbers)


def test_each_main_statistic_has_a_sentence_with_the_numbers_of_the_table(wide):
    text, table = (wide / "results.md").read_text("utf-8"), (wide / "tables/compared.md").read_text("utf-8")
    rows = [line.split(" | ") for line in table.replace("\\", "").splitlines() if line.startswith("| ")][1:]
    for title, *cells in rows:
        assert f"{title.removeprefix('| ')} was {cells[0]} in " in text
    assert text.count("did not differ significantly") == len(re.findall(r"\(difference \S+ \[−\S+, [\d.,]+\]\)", text))
    assert r"\%" in (wide / "results.tex").read_text("utf-8")


def test_why_statistics_have_no_interval_is_told_of_each_of_them():
    of_cell = {"model": "bert", "corpus": "nested", "checkpoint": "final", "status": "done", "metric": "motion"}
    reasons = [
        {"statistic": name, "view": "text tokens", "reason": "no interval with 3 texts, and more"} for name in "ab"
    ]
    contents = SimpleNamespace(study={}, cells=[of_cell | {"reasons": json.dumps(reasons)}])
    assert _reasons(contents) == {"motion.a": "3 texts", "motion.b": "3 texts"}


def test_a_profile_is_a_table_by_layer_and_model(narrow):
    lines = read(narrow / "tables/anisotropy-top_variance_share.md").splitlines()
    header = lines.index(next(line for line in lines if line.startswith("| Layer |")))
    assert "bert" in lines[header] and lines[header + 2].startswith("| embedding |")
    assert lines[header + 3].startswith("| 1 |") and r"\[" in lines[header + 3]
    assert r"\begin{table}" in read(narrow / "tables/anisotropy-top_variance_share.tex")


def test_rows_of_a_figure_are_the_numbers_of_the_database_that_were_chosen(wide, drawn):
    rows = pd.read_csv(wide / "tables/anisotropy-top_variance_share.csv")
    stored = Store(drawn[0] / "results.duckdb").frame("SELECT * FROM layer_metrics WHERE view = 'without sinks'")
    both = rows.merge(stored, on=["model", "checkpoint", "corpus", "view", "statistic", "site", "layer"])
    assert len(both) == len(rows) > 0
    shown, kept = (both[[f"{name}_{side}" for name in ("value", "ci_low", "ci_high")]] for side in "xy")
    np.testing.assert_allclose(shown, kept.astype(float), rtol=1e-9)
    assert len(rows.groupby("model")) == len(rows.groupby(["model", "checkpoint"])) == 6


def test_every_kind_of_figure_can_be_drawn(wide, reports, tmp_path):
    export("exhibited", reports, tmp_path, Wanted(EXHIBITED, ("svg",)))
    figures = [list((folder / "figures").iterdir()) for folder in (wide, tmp_path)]
    assert len(figures[0]) > len(KINDS) and len(figures[1]) >= 10
    for paths in figures:
        for path in paths:
            ids = [element.get("id") for element in ET.parse(path).iter() if element.get("id")]
            assert len(ids) == len(set(ids)), path.name
    lines = read(tmp_path / "left-out.txt").splitlines()[1:]
    assert lines and all("is a table" in line for line in lines)


def test_names_cannot_write_into_a_figure(torn, tmp_path):
    export("torn", torn, tmp_path, Wanted((ONE,), ("svg", "pdf")))
    assert "<script" not in read(tmp_path / FIGURE) and "</text><script>alert(1)</script>" in texts(tmp_path / FIGURE)


def test_what_cannot_be_is_said(drawn, monkeypatch, tmp_path):
    folder, contents = drawn
    wrong = {f"did you mean '{ONE}'": Wanted((ONE[:-1],)), "formats: svg, pdf, png": Wanted(formats=("gif",))}
    wrong |= {"token trajectories are not exported; open their page": Wanted(("journeys",))}
    wrong |= {"did you mean 'text tokens'": Wanted(choose={"view": "text-token"})}
    wrong |= {"expected a whole number": Wanted(choose={"layer": "x"})}
    wrong |= {"the width must be between 30 and 600": Wanted(width=3)}
    with pytest.raises(UsageError, match="did you mean 'whole'"):
        export("whloe", folder, tmp_path / "none", Wanted())
    monkeypatch.setattr(writing, "read_study", lambda *_: contents)
    for says, wanted in wrong.items():
        with pytest.raises(UsageError, match=re.escape(says)):
            export("whole", folder, tmp_path / "none", wanted)
    assert not (tmp_path / "none").exists()


def test_methods_and_references(narrow):
    methods, bib = read(narrow / "methods.md"), read(narrow / "references.bib")
    for part in ("We measured", "blocks of width", "texts", "reporter", "seed", "SHA-256 of the numbers: `"):
        assert part in methods
    assert bib.startswith("@misc{report-whole,") and "2311.05928" in bib
    assert "1909.00512" not in bib  # only what is shown
    models = read(narrow / "tables" / "models.md").splitlines()
    assert len(models) == len(set(models)) and "checkpoint" not in models[0], "a model of two checkpoints stands once"
    assert {row["checkpoint"] for row in rows_of(read(narrow / "tables" / "models.csv"))} > {"final"}, "the CSV has all"


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("pdflatex") and shutil.which("bibtex")), reason="LaTeX is not here")
@pytest.mark.parametrize(("study", "width"), [("whole", 170), ("torn", 85)])
def test_a_paper_of_two_columns_takes_everything(exported, torn, tmp_path, study, width):
    if study == "torn":
        export(study, torn, tmp_path, Wanted(("main",), ("pdf",), width=width))
    else:
        tmp_path = exported("paper", "main", formats=("pdf",), width=width)
    tables = sorted(path.stem for path in (tmp_path / "tables").glob("*.tex"))
    assert {"models", "corpora"} <= set(tables)
    paper = r"\documentclass[twocolumn]{article}\usepackage{graphicx,booktabs,array}\extrafloats{200}\begin{document}"
    paper += rf"\input{{methods}}\cite{{report-{study}}}\input{{figures}}"
    paper += " ".join(rf"\input{{tables/{name}}}" for name in tables)
    paper += r"\bibliographystyle{plain}\bibliography{references}\end{document}"
    (tmp_path / "paper.tex").write_text(paper)
    pdflatex = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper"]
    for command in (pdflatex, ["bibtex", "paper"], pdflatex, pdflatex):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
        assert done.returncode == 0, done.stdout[-2000:]
        assert command[0] != "bibtex" or "Warning" not in done.stdout
    assert "undefined" not in done.stdout
    assert all(float(points) < 2 for points in re.findall(r"Overfull .hbox \(([\d.]+)pt", done.stdout))
