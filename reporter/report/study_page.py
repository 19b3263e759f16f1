"""The page of one study."""

from __future__ import annotations

from collections import Counter

from jinja2 import Environment

from reporter.charts.scene import ATTENTION, PATH
from reporter.charts.styles import DECODER, ENCODER, RAMP
from reporter.paths import shared_text
from reporter.report import tables
from reporter.report.citing import cite
from reporter.report.contents import Contents

VIEWS = {
    "words": "Every token of the text itself, sinks included; what the tokenizer adds ([CLS], [SEP], BOS, EOS) is left "
    "out, so a decoder's first token counts where no BOS stands before it.",
    "all": "Every token, those that the tokenizer adds included. Padding never counts.",
    "no-sinks": "As words, without sinks (see the section Sinks) and without each text's first token, so that the same "
    "tokens count in every model, with or without a BOS. A single sink can make a whole profile.",
}
SITES = {
    PATH: "Profiles show the residual stream: what enters the first block, and what each block returns. A hollow mark "
    "is the state after the closing norm.",
    ATTENTION: "Profiles show the residual stream after each block's attention, before its feed-forward. Other charts "
    "stay.",
}
ROLES = {ENCODER: "Encoders", DECODER: "Decoders", "other": "Other models"}


def study_page(contents: Contents, templates: Environment) -> str:
    """Return the HTML of a study's page.

    Args:
        contents: the study with its charts drawn.
        templates: where the templates are.
    """
    scene, study = contents.scene, contents.study
    views = _views(contents)
    models = tables.model_rows(contents.models)
    warnings = tables.warnings(models, contents.cells)
    lacks = tables.missing(study, contents.models, contents.corpora, contents.cells)
    return templates.get_template("study.html").render(
        study=study | {"spec": shared_text(study["spec"] or "")},
        title=study["title"] or study["study"],
        facts=facts(contents),
        contents=contents,
        numbers=contents.numbered,
        titles={drawn.id: drawn.chart.title for drawn in contents.charts if drawn.shown},
        cited=cite(contents, contents.every),
        sinks=contents.sinks,
        explorers=contents.explorers,
        here="index.html",
        scene=scene,
        roles=ROLES,
        views=[(view, views.get(view, "")) for view in scene.views],
        sites=[(site, SITES[site]) for site in scene.sites],
        ramp={"light": list(RAMP), "dark": list(RAMP.values())},
        missing=lacks,
        models=models,
        warnings=warnings,
        warned={name for _, names in warnings for name in names},
        cells=contents.cells[: tables.MOST_CELLS],
        versions=tables.parsed(study["versions"], dict),
        page={
            "study": study["study"],
            "views": list(scene.views),
            "moments": [{"label": moment.label, "shown": moment.shown} for moment in scene.moments],
            "about": views | SITES,
            "dark": scene.styles.dark_twins,
            "roles": {style.model: style.role for style in scene.styles.own},
            "baselines": scene.styles.baselines,
            "means": scene.styles.means,
            "charts": [drawn.id for drawn in contents.charts if drawn.shown],
        },
    )


def _views(contents: Contents) -> dict[str, str]:
    """Return what is said of each view; where models differ in what stands at position 0, that a view hangs on it."""
    own = [row for row in contents.models if not row.get("baseline")]  # a null baseline begins as its model does
    firsts = {row["model"]: row["first_token"] for row in own if row.get("first_token")}
    words = [model for model, first in firsts.items() if first == "word"]
    if not words or len(words) == len(firsts):
        return VIEWS
    others = [model for model in firsts if model not in words]
    note = (
        f" Position 0 holds a word in {_few(words)} and an added token in {_few(others)}: "
        "compare encoders with decoders under no-sinks."
    )
    return VIEWS | {view: VIEWS[view] + note for view in ("words", "all")}


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def facts(contents: Contents) -> list[str]:
    """Return the facts under the title: models by role, corpora, views, cells, when."""
    study = contents.study
    styles = contents.scene.styles
    roles = Counter(style.role for style in styles.own)
    models = [_count(roles[role], "model" if role == "other" else role) for role in roles]
    facts = [" and ".join(models)] if models else ["no model with numbers"]
    if styles.baselines:
        facts.append(_count(len(styles.baselines), "null baseline"))
    facts.append(_count(len(contents.scene.corpora) or len(contents.corpora), "corpus", "corpora"))
    facts.append(_count(len(contents.scene.views), "view"))
    status = Counter(row["status"] for row in contents.cells)
    cells = f"{_count(len(contents.cells), 'cell')}: {status['done']:,} done"
    if study["cells_cached"] is not None:
        cells += f" ({study['cells_cached']:,} found cached)"
    facts.append(f"{cells}, {status['failed']:,} failed")
    return facts


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
