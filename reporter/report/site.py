"""The site of a results folder: the list of studies, a page and CSVs for each, a script and a stylesheet."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from jinja2 import Environment, TemplateError

from reporter.charts.chart import Drawn
from reporter.charts.drawing import first_choice, page_data
from reporter.charts.layout import ATTENTION, PATH, panels_of
from reporter.charts.parts import MOST_LABELLED
from reporter.charts.picture import Figure, FigureSize, figure_svg, preview_png
from reporter.charts.styles import CATEGORIES, DECODER, ENCODER, LIGHT, RAMP
from reporter.core.errors import ReporterError, UsageError, no_study, shared_text
from reporter.core.numbers import counted
from reporter.core.outputs import inside, replacing, require_replaceable
from reporter.core.places import TEXT_TOKENS, WITH_SPECIAL_TOKENS, WITHOUT_SINKS
from reporter.metrics.analysis import analyses
from reporter.metrics.base import Definition, catalogue
from reporter.report import card
from reporter.report import tables as queries
from reporter.report.citing import cite
from reporter.report.compared import path_of, profiles_of
from reporter.report.contents import BESIDES, Contents, read_contents, readers
from reporter.report.explorers import ChartPage, Explorer
from reporter.report.journeys import static_journey
from reporter.report.look import FOLDER as LOOK
from reporter.report.look import ReportLook, read_look
from reporter.report.search import search_index
from reporter.report.templating import ASSETS, carry_assets, environment, inline_json, write, write_assets
from reporter.store import Store
from reporter.store.rows import spec_of

# The page of one study.


VIEWS: dict[str, str] = {
    TEXT_TOKENS: "The tokens of the text, sinks included, without the tokenizer's [CLS], [SEP], BOS and EOS. "
    "Without a BOS, a decoder's first word counts.",
    WITH_SPECIAL_TOKENS: "All tokens, including the ones that the tokenizer adds. Padding never counts.",
    WITHOUT_SINKS: "The tokens of the text without sinks (see Sinks) and without each text's first token: the same "
    "tokens in every model. A single sink can dominate a whole profile.",
}
SITES = {
    PATH: "Profiles show the residual stream: the input of the first block and the output of each block. A hollow mark "
    "is the state after the final norm.",
    ATTENTION: "Profiles show the residual stream after each block's attention, before its feed-forward. Other charts "
    "do not change.",
}
SITE_NAMES = {PATH: "residual stream", ATTENTION: "after attention"}
TEMPLATES = {"index": "overview.html", "claims": "verdicts.html"}
"""Of pages that have no template of their own name."""
ROLES = {ENCODER: "Encoders", DECODER: "Decoders", "other": "Other models"}


def study_pages(contents: Contents, templates: Environment) -> dict[str, str]:
    """Return the HTML of a study's pages by file name, without those of its explorers."""
    scene, study = contents.scene, contents.study
    views = _views(contents)
    models = queries.model_rows(contents.models)
    warnings = queries.warnings(models, contents.cells)
    lacks = queries.missing(study, models=contents.models, corpora=contents.corpora, cells=contents.cells)
    layered, trained = contents.layered, contents.trained
    shared = common(contents) | {
        "study": study | {"spec": shared_text(study["spec"] or "")},
        "facts": facts(contents),
        "titles": {drawn.id: drawn.chart.title for drawn in contents.charts if drawn.shown},
        "cited": cite(contents, contents.every),
        "sinks": contents.sinks,
        "missing": lacks,
        "unlearned": queries.unlearned(contents.models),
        "models": models,
        "warnings": warnings,
        "warned": {name for _, names in warnings for name in names},
        "cells": contents.cells[: queries.MOST_CELLS],
        "versions": queries.parsed(study["versions"], dict),
        "answers_of": contents.answers_of,
        "overview": contents.overview,
    }
    controls = {
        "roles": ROLES,
        "views": [(view, views.get(view, "")) for view in scene.views],
        "sites": [(site, SITE_NAMES[site], SITES[site]) for site in scene.sites],
        "ramp": {"light": list(RAMP), "dark": list(RAMP.values())},
    }

    def page(name: str, title: str, charts: Sequence[Drawn] = (), **more: Any) -> str:
        data: dict[str, Any] = {"study": study["study"]}
        if charts:
            data |= {
                "views": list(scene.views),
                "moments": [vars(moment) for moment in scene.moments],
                "about": views | SITES,
                "dark": scene.styles.dark_colours,
                "roles": {style.model: style.role for style in scene.styles.own},
                "bases": {row["model"]: row["base"] for row in contents.models if row["base"]},
                "baselines": scene.styles.baselines,
                "means": scene.styles.means,
                "many": max(Counter(style.role for style in scene.styles.own).values(), default=0) > 2,
                "corpora": list(scene.corpora),
                "properties": _properties(contents),
                "palette": {
                    "ramp": list(RAMP),
                    "categories": list(CATEGORIES),
                    "roles": {role: colours[0] for role, colours in LIGHT.items()},
                },
                "both": more.get("both", False),
            }
        of_page = {"here": f"{name}.html", "page_title": title, "charts": charts, "page": data}
        return templates.get_template(TEMPLATES.get(name, f"{name}.html")).render(shared | controls | of_page | more)

    by_id = {drawn.id: drawn for drawn in contents.charts if drawn.placed}
    lead = by_id.get(contents.leads[0].picture)
    if lead is None and contents.leads[0].name == "training":
        lead = next((drawn for drawn in trained if drawn.placed), None)
    usual = [by_id[name] for name in (contents.overview.charts if contents.overview else ()) if name in by_id]
    first = ([lead] if lead else []) + [drawn for drawn in usual if drawn is not lead]
    more = {"lead": lead, "leads": contents.leads, "few": queries.few_texts(contents.study, contents.corpora)}
    sinks = sorted({cell["sinks"] for cell in contents.cells if cell["sinks"] is not None})
    # without a sink a second curve would be the first one again
    both = len(scene.views) > 1 and sinks != [0]
    pages = {"index.html": page("index", "Overview", first, both=both, **more)}
    if layered:
        pages["layers.html"] = page("layers", "Layers", layered)
    if trained:
        pages["training.html"] = page("training", "Training", trained)
    if contents.claims.all or contents.findings.looked_at:
        pages["claims.html"] = page("claims", "Claims" if contents.claims.all else "Findings")
    if contents.examples:
        pages["examples.html"] = page("examples", "Examples")
    pages["method.html"] = page("method", "Method")
    return pages


def common(contents: Contents) -> dict[str, Any]:
    """Return what the templates of all pages of a study are given."""
    return {
        "study": contents.study,
        "title": title_of(contents),
        "contents": contents,
        "numbers": contents.numbered,
        "explorers": contents.explorers,
        "scene": contents.scene,
        "pages": contents.pages,
        "preview": {"title": title_of(contents), "text": description(contents), "image": contents.preview},
    }


def _properties(contents: Contents) -> dict[str, dict[str, str | int]]:
    """Return what tells models apart, by property and model; nothing where names stand at the ends of lines."""
    own = [style.model for style in contents.scene.styles.own]
    if len(own) <= MOST_LABELLED:
        return {}
    rows = {row["model"]: row for row in contents.models if row["is_last"]}
    columns = {"role": "role", "architecture": "family", "width": "width", "depth": "layers", "training step": "step"}
    properties = {title: {model: rows[model][column] for model in own} for title, column in columns.items()}
    properties["base"] = {model: rows[model]["base"] for model in own}
    named = spec_of(contents.study["spec"]).get("models")
    entries = named if isinstance(named, dict) else {}
    recipes = {model: entry.get("recipe") for model, entry in entries.items() if isinstance(entry, dict)}
    properties["seed"] = {model: recipe.get("seed") for model, recipe in recipes.items() if isinstance(recipe, dict)}
    known = {
        title: {model: values[model] for model in own if values.get(model) is not None}
        for title, values in properties.items()
    }
    return {title: values for title, values in known.items() if len(set(values.values())) > 1}


def title_of(contents: Contents) -> str:
    """Return the title of a study, its id if it has none."""
    return str(contents.study["title"] or contents.study["study"])


def description(contents: Contents) -> str:
    """Return what a study says first, in a sentence: a comparison, a finding, its question, or what was measured."""
    overview, findings = contents.overview, contents.findings.all
    if overview and overview.sentences:
        return overview.sentences[0].text
    if findings:
        return str(findings[0]["row"]["says"])
    return str(contents.study["question"] or (overview.line if overview else "") or title_of(contents))


def _views(contents: Contents) -> dict[str, str]:
    models = [row for row in contents.models if not row.get("baseline")]  # a null baseline begins as its model does
    firsts = {row["model"]: row["first_token"] for row in models if row.get("first_token")}
    words = [model for model, first in firsts.items() if first == "word"]
    if not words or len(words) == len(firsts):
        return VIEWS
    rest = [model for model in firsts if model not in words]
    note = (
        f" Position 0 holds a word in {_first_names(words)} and an added token in {_first_names(rest)}: "
        "compare encoders with decoders without sinks."
    )
    return VIEWS | {view: VIEWS[view] + note for view in (TEXT_TOKENS, WITH_SPECIAL_TOKENS)}


def _first_names(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def facts(contents: Contents) -> list[str]:
    """Return the facts under the title: models by role, corpora, token sets, measurements."""
    study = contents.study
    styles = contents.scene.styles
    roles = Counter(style.role for style in styles.own)
    models = [counted(roles[role], "model" if role == "other" else role) for role in roles]
    facts = [" and ".join(models)] if models else ["no model with numbers"]
    if styles.baselines:
        facts.append(counted(len(styles.baselines), "null baseline"))
    facts.append(counted(len(contents.scene.corpora) or len(contents.corpora), "corpus", "corpora"))
    facts.append(counted(len(contents.scene.views), "token set"))
    status = Counter(row["status"] for row in contents.cells)
    cells = f"{counted(len(contents.cells), 'measurement')}: {status['done']:,} done"
    if study["cells_cached"] is not None:
        cells += f" ({study['cells_cached']:,} found in the cache)"
    facts.append(f"{cells}, {status['failed']:,} failed")
    return facts


def sparkline(contents: Contents) -> dict[str, Any] | None:
    """Return a study's first main profile on its first corpus, for the list of studies."""
    scene = contents.scene
    for drawn in contents.glance:
        if drawn.chart.kind != "profile" or drawn.frame.empty:
            continue
        panel, profiles = panels_of(drawn.frame, "corpus", scene)[0], profiles_of(drawn, scene)
        courses = {style: profiles.get((panel.value, scene.views[0], style.model), []) for style in scene.styles.own}
        values = [value for course in courses.values() if len(course) > 1 for _, value in course]
        if values:
            ends = min(values), max(values)
            lines = [(style, path_of(course, *ends)) for style, course in courses.items() if len(course) > 1]
            return {"caption": f"{drawn.chart.title} on {panel.label}", "lines": lines}
    return None


IMAGES, IMAGE_SIZE = "figures", FigureSize(width=180.0, font=8.0)


def with_images(contents: Contents, folder: Path, address: str = "") -> Contents:
    """Return a study with static images of its figures as the pages show them when they open.

    They are for readers without scripts, and are written to ``figures/`` of the folder of its new pages. What cannot be
    drawn (a table, a chart without numbers for the first choice) has none. One more picture is for previews of links.
    """
    (folder / IMAGES).mkdir(parents=True, exist_ok=True)

    def keep(name: str, svg: str) -> str:
        inside(folder / IMAGES, f"{name}.svg").write_text(svg, encoding="utf-8")
        return f"{IMAGES}/{name}.svg"

    def with_image(drawn: Drawn) -> Drawn:
        if not drawn.shown:
            return drawn
        try:
            svg = figure_svg(Figure(drawn, contents.scene, first_choice(contents.scene)), IMAGE_SIZE)
        except ValueError:
            return drawn
        return replace(drawn, image=keep(drawn.id, svg))

    def page(explorer: Explorer) -> Explorer:
        if isinstance(explorer, ChartPage):
            chapters = {name: tuple(map(with_image, charts)) for name, charts in explorer.chapters.items()}
            return replace(explorer, chapters=chapters, charts=tuple(chain.from_iterable(chapters.values())))
        if explorer.name == "tokens" and explorer.sources:
            tables, images = static_journey(explorer)
            images = {name: keep(f"journeys-{name}", svg) for name, svg in images.items()}
            return replace(explorer, static=tables | {"images": images})
        return explorer

    preview = _write_preview(contents, folder)
    if preview and address:
        preview = f"{address.rstrip('/')}/{contents.study['study']}/{preview}"
    return replace(contents.with_charts(with_image), explorers=tuple(map(page, contents.explorers)), preview=preview)


def _write_preview(contents: Contents, folder: Path) -> str:
    """Write the picture of the first sentence, or of the first main figure; return its path, empty without one."""
    sentences = contents.overview.sentences if contents.overview else ()
    first, *_ = [*sentences, None]
    choice, names = first_choice(contents.scene), [drawn.id for drawn in contents.glance]
    if first is not None:
        names.insert(0, first.figure)
        choice = replace(choice, view=first.views[0]) if first.views and first.views[0] else choice
    by_id = {drawn.id: drawn for drawn in contents.charts if drawn.shown}
    for name in names:
        if name in by_id:
            drawn = replace(by_id[name], panels=by_id[name].panels[:2])
            with suppress(ValueError):  # it cannot be drawn
                png = preview_png(Figure(drawn, contents.scene, choice), title_of(contents), description(contents))
                (folder / IMAGES / "preview.png").write_bytes(png)
                return f"{IMAGES}/preview.png"
    return ""


RESERVED = {"assets", "cache"}
"""Folders of a results folder that are no study's."""


def render(
    database: Path, out: Path, studies: Sequence[str] | None = None, alone: bool = False, address: str = ""
) -> list[Path]:
    """Write the report from the database, computing no number.

    Args:
        database: the results.
        out: the folder to write.
        studies: whose pages; all if left out.
        alone: whether to leave out other studies, and to add images for readers without scripts.
        address: where the folder will be on the web, which previews of links need.
    """
    store = Store(database)
    with store.reading() as read:
        rows = queries.rows_of(read(queries.STUDIES))
        chosen = _wanted(database, [str(row["study"]) for row in rows], studies)
        definitions = {**catalogue(), **analyses()}
        shown = [
            read_contents(read, row, definitions, main_only=row["study"] not in chosen)
            for row in rows
            if row["study"] in chosen or not alone
        ]
    require_free_places(out, dict.fromkeys(chosen, False))
    pages, images = [], []
    with replacing(out) as fresh:
        write_assets(fresh)
        for contents in shown:
            if (name := str(contents.study["study"])) in chosen:
                look = read_look(contents.study, database.parent / name)
                if card.WRITTEN in str(contents.study["spec"] or "").splitlines()[:2]:
                    contents = replace(contents, cards=card.cards(store, name))
                drawn = look.of(contents).drawn()
                with replacing(out, name) as folder:
                    illustrated = with_images(drawn, folder, address) if alone else drawn
                    written = _write_study(folder, illustrated, look)
                    carry_assets(fresh, folder)
                pages += [out / name / page for page in written]
                if image := illustrated.preview:
                    images.append(image if address else f"{name}/{image}")
        cards = [_card(out / str(contents.study["study"]), contents, definitions) for contents in shown]
        preview = {"title": "Studies", "text": "; ".join(card["title"] for card in cards), "image": "".join(images[:1])}
        index = environment().get_template("index.html")
        write(fresh / "index.html", index.render(cards=cards, alone=alone, preview=preview))
    return [out / "index.html", *pages]


def require_free_places(out: Path, studies: Mapping[str, bool]) -> None:
    """Raise ``UsageError`` where files of others have the names of pages; a run asks before it measures.

    Args:
        out: the results folder.
        studies: by id whether a study brings templates or a stylesheet of its own.
    """
    require_replaceable(out, names=["index.html", *ASSETS])
    for study, has_look in studies.items():
        require_replaceable(out, study, ["index.html", "layers.html", "method.html", "data/search.js", *ASSETS])
        if has_look:
            require_replaceable(out, f"{study}/{LOOK}", alone=True)


def _wanted(database: Path, stored: Sequence[str], studies: Sequence[str] | None) -> list[str]:
    if not stored:
        raise UsageError(f"{database} has no study yet; run `reporter run STUDY` first")
    names = list(dict.fromkeys(stored if studies is None else studies))
    for name in names:
        if name not in stored:
            raise no_study(name, database, stored)
        if name in RESERVED or not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
            raise UsageError(f"study {name!r} cannot have a page, since its id cannot be a folder's name; rename it")
    return names


def _write_study(folder: Path, contents: Contents, look: ReportLook) -> list[str]:
    """Write pages and data of a study into a new folder; return the names of the pages."""
    templates = environment(look.templates)
    templates.globals["look"] = look
    try:
        return _write_pages(folder, contents, templates)
    except TemplateError as error:
        if look.templates is None:
            raise
        name, line = getattr(error, "filename", None) or getattr(error, "name", None), getattr(error, "lineno", None)
        where = f"{Path(name).name}{f', line {line}' if line else ''}" if name else "a template"
        raise ReporterError(
            f"study {contents.study['study']!r}, report.templates: {where}: {error}; correct it, or remove "
            "report.templates from the study"
        ) from error


def _write_pages(folder: Path, contents: Contents, templates: Any) -> list[str]:
    pages = study_pages(contents, templates)
    for explorer in contents.explorers:
        template = "charts.html" if isinstance(explorer, ChartPage) and explorer.name not in BESIDES else explorer.page
        pages[explorer.page] = templates.get_template("explorer.html" if explorer.error else template).render(
            common(contents),
            explorer=explorer,
            here=explorer.page,
            page_title=explorer.title,
            sinks=contents.sinks,
            answers_of=contents.answers_of,
            for_page={"name": explorer.name, "study": contents.study["study"], **explorer.data},
        )
    (folder / "data").mkdir()
    _write_data(folder / "data", contents)
    for name, html in pages.items():
        write(folder / name, html)
    return list(pages)


def _write_data(fresh: Path, contents: Contents) -> None:
    """Write CSVs and chart data into a fresh folder."""
    import pandas as pd

    def write_parts(parts: Mapping[str, Any]) -> None:
        for name, value in parts.items():
            # scripts and not JSON: a page that was opened as a file may load no other file than a script
            text = f"reporterPart({inline_json(name)},{inline_json(value)});\n"
            inside(fresh, f"{name}.js").write_text(text, encoding="utf-8")

    for drawn in contents.every:
        if drawn.read:
            queries.write_csv(inside(fresh, f"{drawn.id}.csv"), drawn.frame)
        if drawn.shown:
            write_parts(page_data(drawn))  # each at once: all together would be a few times the database
    tables = {"models": contents.models, "corpora": contents.corpora, "cells": contents.cells}
    tables |= {"sinks": contents.sinks["all"]} if contents.sinks else {}
    frames = {name: pd.DataFrame(rows) for name, rows in tables.items()}
    for answer in contents.answers:
        frames |= answer["tables"]
    if contents.behind is not None:
        frames |= {f"examples-{name}": pd.DataFrame(rows) for name, rows in contents.behind.tables.items() if rows}
    frames |= {"claims": contents.claims.frame} if contents.claims.all else {}
    frames |= {"compared": contents.compared.frame} if contents.compared else {}
    frames |= {"findings": contents.findings.frame} if contents.findings.all else {}
    for name, frame in frames.items():
        queries.write_csv(inside(fresh, f"{name}.csv"), frame)
    for explorer in contents.explorers:
        write_parts(explorer.parts)
        for source in explorer.sources:
            queries.write_csv(inside(fresh, f"{source.name}.csv"), source.frame)
    write_parts({"search": search_index(contents)})
    (fresh / "references.bib").write_text(cite(contents, contents.every).bibtex, encoding="utf-8")


def _card(folder: Path, contents: Contents, definitions: Mapping[str, Definition]) -> queries.Row:
    study = contents.study
    failed = sum(row["status"] == "failed" for row in [*contents.cells, *contents.models, *contents.corpora])
    unfinished = study["started"] is not None and study["finished"] is None
    pages = [(f"{name}.html", title) for name, (title, _) in readers(definitions).items()]
    return {
        **{name: study[name] for name in ("study", "question", "finished")},
        "title": study["title"] or study["study"],
        "facts": facts(contents),
        "models": contents.scene.styles.own,
        "status": "unfinished" if unfinished else f"{failed} failed" if failed else "complete",
        "good": not failed and not unfinished,
        "page": (folder / "index.html").exists(),
        "claims": contents.claims,
        "explorers": [(page, title) for page, title in pages if (folder / page).exists()],
        "spark": sparkline(contents),
    }
