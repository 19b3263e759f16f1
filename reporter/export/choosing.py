"""Which figures are meant, and what of them shall be shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from reporter.charts.chart import Drawn
from reporter.charts.choice import Choice, first_choice
from reporter.charts.scene import Scene
from reporter.errors import UsageError, hint, one_line
from reporter.report.contents import Contents

HEADLINES, ALL = "headlines", "all"


def figures_of(contents: Contents) -> dict[str, Drawn]:
    """Return every chart that a report draws, by its id, in the order of their numbers."""
    by_id = {drawn.id: drawn for drawn in contents.every}
    return {name: by_id[name] for name in contents.numbered}


def chosen_figures(contents: Contents, names: Sequence[str]) -> dict[str, Drawn]:
    """Return the figures that names stand for, in the order of the report.

    Args:
        contents: the study, drawn.
        names: ids of charts, names of metrics (all of its charts), numbers of figures, ``headlines`` or ``all``.

    Raises:
        UsageError: a name stands for nothing.
    """
    figures = figures_of(contents)
    numbers = {str(number): name for name, number in contents.numbered.items()}
    sections = {section.name: [drawn.id for drawn in section.charts] for section in contents.sections}
    found: set[str] = set()
    for name in names:
        if name == ALL:
            found |= figures.keys()
        elif name == HEADLINES:
            found |= {drawn.id for drawn in contents.glance}
        elif name in figures or name in numbers:
            found.add(numbers.get(name, name))
        elif name in sections:
            found |= set(sections[name])
        elif name in {drawn.id for drawn in contents.charts}:
            raise UsageError(f"figure {name!r} has no numbers in this study")
        elif name.partition(".")[0] == "journeys":
            raise UsageError("journeys are drawn by their page alone: save them there, or print it")
        else:
            known = [HEADLINES, ALL, *sections, *figures]
            raise UsageError(f"there is no figure '{one_line(name)}'{hint(name, known, 'there are')}")
    return {name: drawn for name, drawn in figures.items() if name in found}


def choice_of(contents: Contents, said: Mapping[str, str], figures: Mapping[str, Drawn]) -> Choice:
    """Return where the controls of the page shall stand.

    Args:
        contents: the study.
        said: from the name of a control (``view``, ``checkpoint``, ``site``, ``baselines``, ``layer``, or a selector of
            one of the figures) to what it says; what is left out stays as the page opens.
        figures: what will be drawn.

    Raises:
        UsageError: there is no such control, or it does not offer that.
    """
    scene = contents.scene
    choice, picks = first_choice(scene), dict[str, str]()
    moments = [moment.label for moment in scene.moments]
    controls = {"view": scene.views, "checkpoint": moments, "site": scene.sites, "baselines": scene.baselines}
    for name, value in said.items():
        if name in controls:
            if value not in controls[name]:
                raise UsageError(f"no {name} '{one_line(value)}' here{hint(value, list(controls[name]), 'there are')}")
            if name == "checkpoint":
                choice = replace(choice, moment=moments.index(value))
            else:
                choice = replace(
                    choice,
                    view=value if name == "view" else choice.view,
                    site=value if name == "site" else choice.site,
                    baselines=value if name == "baselines" else choice.baselines,
                )
        elif name == "layer":
            if not value.isdecimal():
                raise UsageError(f"layer '{one_line(value)}' is no whole number")
            choice = replace(choice, layer=int(value))
        else:
            picks[name] = _offered(name, value, figures, scene)
    return replace(choice, picks=picks)


def _offered(name: str, value: str, figures: Mapping[str, Drawn], scene: Scene) -> str:
    """What a selector of a figure is to say, by the value or by the words of the page."""
    selectors = [pick for drawn in figures.values() for pick in drawn.picks if name in (pick.name, pick.label.lower())]
    if not selectors:
        there = dict.fromkeys(pick.name for drawn in figures.values() for pick in drawn.picks)
        known = ["view", "checkpoint", *(["site"] if len(scene.sites) > 1 else []), "baselines", "layer", *there]
        raise UsageError(f"no control '{one_line(name)}'{hint(name, known, 'there are')}")
    for pick in selectors:
        for offered, text in pick.choices.items():
            if value in (offered, text):
                return offered
    known = list(dict.fromkeys(value for pick in selectors for value in pick.choices))
    raise UsageError(f"{name} cannot be '{one_line(value)}'{hint(value, known, 'there are')}")
