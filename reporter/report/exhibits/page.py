"""A page of exhibits: who can be chosen on it, its sections, and what its script needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from reporter.report import queries
from reporter.report.exhibits.exhibit import Exhibit, Hung, Who, draw, hang
from reporter.report.exhibits.palette import CATEGORIES, TWINS
from reporter.report.explorer import Explorer, Read, Source
from reporter.report.numbers import is_null
from reporter.report.styles import FLOOR_GREY, RAMP, Styles

if TYPE_CHECKING:
    import pandas as pd

SITES = ("embedding", "block", "final", "attention")


@dataclass(frozen=True)
class Chosen:
    """A model, or one of its checkpoints, that can be chosen.

    Args:
        model: its name.
        checkpoint: which checkpoint.
        label: what the page calls it.
    """

    model: str
    checkpoint: str
    label: str

    @property
    def key(self) -> Who:
        """What names its rows."""
        return self.model, self.checkpoint


@dataclass(frozen=True)
class Page:
    """Exhibits in sections.

    Args:
        study: id of the study.
        sections: exhibits that have rows or went wrong, by section.
        who: what can be chosen, the last checkpoint of each model first.
    """

    study: str
    sections: Mapping[str, tuple[Hung, ...]]
    who: tuple[Chosen, ...]

    @property
    def hung(self) -> list[Hung]:
        """All exhibits, in the order of the page."""
        return [hung for own in self.sections.values() for hung in own]

    def drawn(self, styles: Styles) -> Page:
        """Return the page with every exhibit drawn; needs no database any more."""
        sections = {name: tuple(draw(hung, styles) for hung in own) for name, own in self.sections.items()}
        return replace(self, sections=sections)

    def for_script(self, styles: Styles) -> dict[str, Any]:
        """Return what the page's script needs before any rows."""
        twins = {style.model: (style.light, style.dark) for style in styles.models}
        keys = [one.key for one in self.who]
        return {
            "who": [
                {
                    "label": one.label,
                    "light": twins.get(one.model, (FLOOR_GREY, FLOOR_GREY))[0],
                    "dark": twins.get(one.model, (FLOOR_GREY, FLOOR_GREY))[1],
                    **self._stops(one.key),
                }
                for one in self.who
            ],
            "exhibits": {hung.id: hung.for_page(keys) for hung in self.hung},
            "dark": TWINS | styles.dark_twins,
            "categories": list(CATEGORIES),
            "ramp": RAMP,
            "grey": FLOOR_GREY,
        }

    @property
    def sites(self) -> list[str]:
        """``path``, and ``attention`` where there are states of it."""
        found = {site for one in self.who for site, _ in self._places(one.key)}
        return ["path", "attention"] if "attention" in found else ["path"] if found else []

    def _stops(self, who: Who) -> dict[str, list[dict[str, Any]]]:
        """The stops of the slider: the residual stream, and after attention."""
        stops: dict[str, list[dict[str, Any]]] = {"path": [], "attention": []}
        for site, layer in sorted(self._places(who), key=lambda place: (SITES.index(place[0]), place[1])):
            label = {"embedding": "embedding", "final": "after the final norm"}.get(site, f"layer {layer}")
            stops["attention" if site == "attention" else "path"].append({"site": site, "layer": layer, "label": label})
        return stops

    def _places(self, who: Who) -> set[tuple[str, int]]:
        found: set[tuple[str, int]] = set()
        for hung in self.hung:
            if hung.exhibit.by_layer and hung.frame is not None and not hung.frame.empty:
                frame = hung.frame
                own = frame[(frame["model"] == who[0]) & (frame["checkpoint"] == who[1])]
                pairs = own[["site", "layer"]].dropna().drop_duplicates()
                found |= {(str(site), int(layer)) for site, layer in pairs.itertuples(index=False)}
        return {place for place in found if place[0] in SITES}


@dataclass(frozen=True)
class ExhibitExplorer(Explorer):
    """An explorer of exhibits.

    Args:
        shown: its exhibits.
        headings: heading and lead of each section.
        more: what its template shows besides.
    """

    shown: Page | None = None
    headings: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)


def explorer_of(page: Page, styles: Styles, **given: Any) -> ExhibitExplorer:
    """Return a page as an explorer.

    Args:
        page: as it was read.
        styles: the models of the study.
        **given: name, title, about, headings and more.
    """
    drawn = page.drawn(styles)
    keys = [one.key for one in drawn.who]
    parts: dict[str, Any] = {}
    for hung in drawn.hung:
        parts |= hung.parts(keys)
    sources: list[Source] = [hung.source for hung in drawn.hung if hung.source is not None]
    return ExhibitExplorer(data=drawn.for_script(styles), parts=parts, sources=tuple(sources), shown=drawn, **given)


def read_page(read: Read, study: str, exhibits: Mapping[str, Sequence[Exhibit]], styles: Styles) -> Page | None:
    """Read a page, or return None where a study has nothing to show on it.

    Args:
        read: runs a query.
        study: id of the study.
        exhibits: what may be shown, by section.
        styles: give the order of the models.
    """
    hung = {name: tuple(hang(read, study, one) for one in own) for name, own in exhibits.items()}
    sections = {name: tuple(one for one in own if not one.empty) for name, own in hung.items()}
    sections = {name: own for name, own in sections.items() if own}
    steps = read(queries.MODELS.fill(study=study))
    who = _who([one for own in sections.values() for one in own], steps, styles)
    if not who:
        return None
    return Page(study, sections, tuple(who))


def _who(hung: Sequence[Hung], models: pd.DataFrame, styles: Styles) -> list[Chosen]:
    found = {key for one in hung for key in one.who}
    columns = (models[name] for name in ("model", "checkpoint", "step"))
    steps = {
        (model, checkpoint): None if is_null(step) else int(step)
        for model, checkpoint, step in zip(*columns, strict=True)
    }
    order = {name: place for place, name in enumerate(styles.names)}
    keys = sorted(found, key=lambda key: (order.get(key[0], len(order)), key[0], -(steps.get(key) or 0), key[1]))
    many = {model for model, _ in keys if sum(model == other for other, _ in keys) > 1}
    return [Chosen(model, name, _label(model, name, steps, many)) for model, name in keys]


def _label(model: str, checkpoint: str, steps: Mapping[Who, Any], many: set[str]) -> str:
    if model not in many:
        return model
    step = steps.get((model, checkpoint))
    return f"{model} · {checkpoint if step is None else f'step {step:,}'}"
