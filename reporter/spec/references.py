"""What must fit together across a study: recipes and analyses name corpora, corpora models; metrics need texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reporter.errors import hint
from reporter.spec.claim_references import Known, claim_contradictions
from reporter.spec.offer import Offer
from reporter.spec.part import Complaint
from reporter.spec.waiting import circle, get, origin_of, shares_of, with_shares_of, wrong_origin


def contradictions(study: Any, offer: Offer) -> list[Complaint]:
    """Find references to what is not there, and recipes and corpora that wait for each other.

    Args:
        study: a ``Study``, or what its file says, whether the rest of it is right or not: a reader wants to
            hear of everything that is wrong at once.
        offer: what it may ask for.
    """
    models, corpora = _mapping(study, "models"), _mapping(study, "corpora")
    shares, corpora = shares_of(corpora), with_shares_of(corpora)
    complaints = []
    for name, model in models.items():
        corpus = get(get(model, "recipe"), "train_on")
        if isinstance(corpus, str) and corpus not in corpora:
            message = f"no corpus '{corpus}'{_hint(corpus, corpora, 'corpora')}"
            complaints.append(Complaint(message, ("models", name, "recipe", "train_on")))
        elif isinstance(corpus, str) and get(corpora[corpus], "chat"):
            message = f"corpus '{corpus}' is a chat, which metrics alone read; name one of plain texts"
            complaints.append(Complaint(message, ("models", name, "recipe", "train_on")))
        if problem := wrong_origin(name, models):
            complaints.append(Complaint(problem, ("models", name, "recipe", "from")))
        for read in _mapping(model, "states"):
            if read not in corpora:
                complaints.append(
                    Complaint(
                        f"no corpus '{read}'{_hint(read, corpora, 'corpora')}", ("models", name, "states", read), "key"
                    )
                )
        for kin in ("base", "twin"):
            other = get(model, kin)
            if isinstance(other, str) and other != origin_of(model) and (other == name or other not in models):
                no_model = f"no model '{other}'{_hint(other, models, 'models')}"
                message = f"a model is not its own {kin}" if other == name else no_model
                complaints.append(Complaint(message, ("models", name, kin)))
    for name, corpus in corpora.items():
        for reference in offer.of_corpora:
            for other, at in () if isinstance(corpus, list) else reference.named(corpus):
                one, known = ("model", models) if reference.to == "models" else ("corpus", corpora)
                if other not in known:
                    message = f"no {one} '{other}'{_hint(other, known, reference.to)}"
                    complaints.append(Complaint(message, ("corpora", shares.get(name, name), *at)))
                elif way := circle(
                    ("corpus", name), models, corpora | {name: {reference.key: other}}, offer.of_corpora
                ):
                    complaints.append(Complaint(f"goes in a circle: {way}", ("corpora", shares.get(name, name), *at)))
    complaints += _of_sections(study, offer, models, corpora)
    asked = "metrics" in (study if isinstance(study, dict) else study.model_fields_set)
    if asked and get(study, "metrics") not in ("none", ()) and not get(study, "corpora"):
        complaints.append(Complaint("metrics need texts; add a corpus under 'corpora'", ("metrics",), "key"))
    complaints += claim_contradictions(_mapping(study, "claims"), Known.of(study, get, offer.sections), offer)
    return list(dict.fromkeys(complaints))  # a share says what its corpus says


def _of_sections(study: Any, offer: Offer, models: dict[str, Any], corpora: dict[str, Any]) -> Iterator[Complaint]:
    """Yield what items of analyses name that is not there, or has no labels where these are needed."""
    for key, section in offer.sections.items():
        for item, at in section.parts(get(study, key)):
            for reference in section.references:
                one, known = ("model", models) if reference.to == "models" else ("corpus", corpora)
                for name, inside in reference.named(item):
                    if name not in known:
                        message = f"no {one} '{name}'{_hint(name, known, reference.to)}"
                        yield Complaint(message, (key, *at, *inside))
                    elif reference.labelled and not get(known[name], "label"):
                        message = f"corpus '{name}' has no labels; give it a 'label' column"
                        yield Complaint(message, (key, *at, *inside))
                    elif reference.to == "corpora" and get(known[name], "chat"):
                        message = f"corpus '{name}' is a chat, which metrics alone read; name one of plain texts"
                        yield Complaint(message, (key, *at, *inside))


def _hint(wrong: str, known: dict[str, Any], what: str) -> str:
    return hint(wrong, list(known), f"{what} of this study") or f"; this study has no {what}"


def _mapping(value: Any, key: str) -> dict[str, Any]:
    found = get(value, key)
    return found if isinstance(found, dict) else {}
