"""What an export leaves: figures of a true size, tables, LaTeX that compiles, references."""

from __future__ import annotations

import csv
import functools
import re
import shutil
import struct
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from reporter.charts.picture import Size
from reporter.core.errors import UsageError
from reporter.report import export as writing
from reporter.report.export import Wanted, export

SVG = "{http://www.w3.org/2000/svg}"
ONE = "anisotropy.top_variance_share"
KINDS = (ONE, f"{ONE}.training", "layer_pairs.pairs", "convergence.differences", "spectrum.curves")


@pytest.fixture(scope="module", autouse=True)
def read_once():
    """Have a study read once for all exports of this file, as it does not change."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "read_study", functools.cache(writing.read_study))
        yield


def texts(path: Path) -> str:
    return " ".join(" ".join(text.itertext()) for text in ET.parse(path).iter(f"{SVG}text"))


def test_a_figure_is_as_wide_as_was_asked_for_in_every_format(results, tmp_path):
    wanted = Wanted((ONE,), ("svg", "pdf", "png"), width=85, font_size=7)
    export("whole", results, tmp_path, wanted)
    figure = tmp_path / "figures" / "anisotropy-top_variance_share"
    root = ET.parse(figure.with_suffix(".svg")).getroot()
    assert root.get("width") == "85mm"
    height = float(root.get("height").removesuffix("mm"))
    points = re.search(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", figure.with_suffix(".pdf").read_bytes())
    assert float(points[1]) == pytest.approx(85 / 25.4 * 72, abs=0.01)
    assert float(points[2]) == pytest.approx(height / 25.4 * 72, abs=0.02)
    png = figure.with_suffix(".png").read_bytes()
    width, _ = struct.unpack(">II", png[16:24])
    per_metre = struct.unpack(">I", png[png.index(b"pHYs") + 4 :][:4])[0]
    assert width / per_metre == pytest.approx(0.085, abs=0.0003)  # what the file says of itself
    assert per_metre == pytest.approx(300 / 0.0254, abs=1)


@pytest.mark.parametrize(("font", "width"), [(7, 85), (10, 85), (8, 170)])
def test_labels_are_as_high_as_was_asked_for(results, tmp_path, font, width):
    export("whole", results, tmp_path, Wanted((ONE,), ("svg",), width=width, font_size=font))
    root = ET.parse(tmp_path / "figures/anisotropy-top_variance_share.svg").getroot()
    across = float(root.get("viewBox").split()[2])
    (height,) = {text.get("font-size") for text in root.iter(f"{SVG}text") if "".join(text.itertext()) == "0.25"}
    assert height == "11px"
    assert 11 * width / across == pytest.approx(font * 25.4 / 72, rel=1e-4)


def test_a_figure_says_everything(results, tmp_path):
    export("whole", results, tmp_path, Wanted((ONE,), ("svg",), choose={"view": "no-sinks"}, bare=False))
    said = texts(tmp_path / "figures/anisotropy-top_variance_share.svg")
    assert re.search(r"Figure \d+\. Variance explained by the first principal component", said)
    for part in ("bert", "gpt2", "relative depth", "without attention sinks", "n = ", "Study whole, reporter", "peak"):
        assert part in said
    assert said != texts_of_first_view(results, tmp_path)


def texts_of_first_view(results, tmp_path):
    export("whole", results, tmp_path / "first", Wanted((ONE,), ("svg",), bare=False))
    return texts(tmp_path / "first/figures/anisotropy-top_variance_share.svg")


def test_a_bare_figure_leaves_its_words_to_latex(results, tmp_path):
    export("whole", results, tmp_path, Wanted((ONE,), ("svg",), width=85))
    said = texts(tmp_path / "figures/anisotropy-top_variance_share.svg")
    assert "Figure" not in said and "peak" not in said and "bert" in said
    assert "Variance explained by the" in said and "principal component" in said, "the value axis has a title"
    tex = (tmp_path / "figures.tex").read_text()
    assert r"\begin{figure}[tp]" in tex and r"\fi]{figures/anisotropy-top_variance_share}" in tex
    assert "Variance explained by the first principal component" in tex and "Figure " not in tex
    assert r"$\lambda _{1} / \sum \lambda$" in tex and "the tokens of the text itself" in tex
    assert r"~\cite{razzhigaev2024shape}" in tex
    assert not re.search(r"Axis:|Tokens:|baselines", tex), "no word of the page's controls"


def test_the_hollow_mark_is_explained(results, tmp_path):
    export("whole", results, tmp_path, Wanted((ONE,), ("svg",)))
    hollow = "after the closing norm"
    assert hollow in texts(tmp_path / "figures/anisotropy-top_variance_share.svg")
    assert hollow in (tmp_path / "figures.tex").read_text()


@pytest.mark.parametrize("width", [85, 170])
def test_models_are_compared_in_a_table_of_estimates(results, tmp_path, width):
    export("whole", results, tmp_path, Wanted((ONE,), ("svg",), width=width))
    tex = (tmp_path / "tables/compared.tex").read_text()
    assert tex.count(r"\begin{table}" if width == 85 else r"\begin{table*}") >= 2
    assert re.search(r"& \d\.\d\d \[\d\.\d\d, \d\.\d\d\]", tex)
    assert not re.search(r"\d\.\d{5}", tex)
    assert max(len(line.split("&")) for line in tex.splitlines()) <= (3 if width == 85 else 5)


def test_rows_of_a_figure_are_those_of_the_choice(results, tmp_path):
    export("whole", results, tmp_path, Wanted((ONE,), ("svg",), choose={"view": "all", "baselines": "with"}))
    with (tmp_path / "tables/anisotropy-top_variance_share.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert rows and {row["view"] for row in rows} == {"all"}
    by_model = {(row["model"], row["checkpoint"]) for row in rows}
    assert len(by_model) == len({model for model, _ in by_model})  # one checkpoint of each


def test_every_kind_of_figure_can_be_drawn(results, tmp_path):
    for study, names in (("whole", KINDS), ("exhibited", ("all",))):
        export(study, results, tmp_path / study, Wanted(names, ("svg",)))
        paths = sorted((tmp_path / study / "figures").iterdir())
        assert len(paths) >= len(names)
        for path in paths:
            ids = [found.get("id") for found in ET.parse(path).iter() if found.get("id")]
            assert len(ids) == len(set(ids)), path.name
    said = (tmp_path / "exhibited/left-out.txt").read_text()
    assert said.splitlines()[1:] and all("is a table" in line for line in said.splitlines()[1:])


def test_names_cannot_write_into_a_figure(results, tmp_path):
    export("torn", results, tmp_path, Wanted((ONE,), ("svg", "pdf")))
    path = tmp_path / "figures/anisotropy-top_variance_share.svg"
    assert "<script" not in path.read_text()
    assert "</text><script>alert(1)</script>" in texts(path)


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (Wanted(("anisotropy.top_variance_shar",)), "did you mean 'anisotropy.top_variance_share'"),
        (Wanted(("journeys",)), "journeys are drawn by their page alone"),
        (Wanted(formats=("gif",)), "there are: svg, pdf, png"),
        (Wanted(width=3), "the width must lie between 30 and 600"),
        (Wanted(font_size=400), "the font size must lie between 3 and 40"),
        (Wanted(choose={"view": "wrods"}), "did you mean 'words'"),
        (Wanted(choose={"veiw": "words"}), "did you mean 'view'"),
        (Wanted(choose={"layer": "x"}), "no whole number"),
    ],
)
def test_what_cannot_be_is_said(results, tmp_path, wanted, says):
    with pytest.raises(UsageError, match=re.escape(says)):
        export("whole", results, tmp_path / "none", wanted)
    assert not (tmp_path / "none").exists()


def test_a_study_that_is_not_there(results, tmp_path):
    with pytest.raises(UsageError, match="did you mean 'whole'"):
        export("whloe", results, tmp_path, Wanted())


def test_methods_and_references(results, tmp_path):
    export("whole", results, tmp_path, Wanted((ONE,), ("svg",)))
    methods = (tmp_path / "methods.md").read_text()
    for part in ("We measured", "blocks of width", "texts", "reporter", "seed", "SHA-256 of the numbers: `"):
        assert part in methods
    bib = (tmp_path / "references.bib").read_text()
    assert bib.startswith("@misc{report-whole,") and "2311.05928" in bib
    assert "1909.00512" not in bib  # only what is shown
    models = (tmp_path / "tables" / "models.md").read_text().splitlines()
    assert len(models) == len(set(models)) and "checkpoint" not in models[0], "a model of two checkpoints stands once"
    with (tmp_path / "tables" / "models.csv").open(newline="") as lines:
        assert {row["checkpoint"] for row in csv.DictReader(lines)} > {"final"}, "the CSV has all of them"
    header, *rows = (tmp_path / "tables" / "compared.csv").read_text().splitlines()
    assert header.startswith("statistic,corpus,view,role,model") and len(rows) > 10


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("pdflatex") and shutil.which("bibtex")), reason="LaTeX is not here")
@pytest.mark.parametrize(("study", "width"), [("whole", 85), ("whole", 170), ("torn", 85)])
def test_a_paper_of_two_columns_takes_everything(results, tmp_path, study, width):
    export(study, results, tmp_path, Wanted(("headlines",), ("pdf",), width=width))
    tables = sorted(path.stem for path in (tmp_path / "tables").glob("*.tex"))
    assert {"models", "corpora"} <= set(tables)
    lines = [r"\documentclass[twocolumn]{article}", r"\usepackage{graphicx,booktabs,array}", r"\extrafloats{200}"]
    lines += [r"\begin{document}", r"\input{methods}\cite{report-" + study + "}", r"\input{figures}"]
    lines += [rf"\input{{tables/{name}}}" for name in tables]
    lines += [r"\bibliographystyle{plain}\bibliography{references}", r"\end{document}"]
    (tmp_path / "paper.tex").write_text("\n".join(lines))
    pdflatex = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper"]
    for command in (pdflatex, ["bibtex", "paper"], pdflatex, pdflatex):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
        assert done.returncode == 0, done.stdout[-2000:]
        assert command[0] != "bibtex" or "Warning" not in done.stdout
    assert "undefined" not in done.stdout
    assert all(float(points) < 5 for points in re.findall(r"Overfull .hbox \(([\d.]+)pt", done.stdout))


def test_panels_stand_beside_each_other_where_there_is_room():
    assert Size(170, 8).columns(2) == 2
    assert Size(85, 8).columns(2) == 1
    assert Size(170, 8).columns(4) == 2  # not three and one
    assert Size(170, 8).panel(1) == pytest.approx(170 / 25.4 * 96 / Size(170, 8).scale)
