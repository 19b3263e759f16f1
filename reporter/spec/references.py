"""What must fit together across a study: recipes name corpora, corpora name models, metrics need texts, claims both."""

from __future__ import annotations

from typing import Any

from reporter.spec.claim_references import Known, claim_contradictions
from reporter.spec.part import Complaint
from reporter.spec.problems import hint
from reporter.spec.waiting import circle, origin_of, wrong_origin

_CORPORA = ("corpus", "corpora")


def contradictions(study: Any) -> list[Complaint]:
    """Find references to what is not there, and recipes and corpora that wait for each other.

    Args:
        study: a ``Study``, or what its file says, whether the rest of it is right or not: a reader wants to
            hear of everything that is wrong at once.
    """
    models, corpora = _mapping(study, "models"), _mapping(study, "corpora")
    complaints = []
    for name, model in models.items():
        corpus = _get(_get(model, "recipe"), "train_on")
        if isinstance(corpus, str) and corpus not in corpora:
            message = f"no corpus '{corpus}'{_hint(corpus, corpora, 'corpora')}"
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
        base = _get(model, "base")
        if isinstance(base, str) and base != origin_of(model) and (base == name or base not in models):
            message = (
                "a model is not its own base" if base == name else f"no model '{base}'{_hint(base, models, 'models')}"
            )
            complaints.append(Complaint(message, ("models", name, "base")))
    for name, corpus in corpora.items():
        for key, known, one, many in (("vocabulary", models, "model", "models"), ("size_of", corpora, *_CORPORA)):
            other = _get(corpus, key)
            if not isinstance(other, str):
                continue
            if other not in known:
                message = f"no {one} '{other}'{_hint(other, known, many)}"
                complaints.append(Complaint(message, ("corpora", name, key)))
            elif (way := circle(("corpus", name), models, corpora | {name: {key: other}})) is not None:
                complaints.append(Complaint(f"goes in a circle: {way}", ("corpora", name, key)))
    for name, cloud in _mapping(study, "clouds").items():
        listed = cloud if isinstance(cloud, list) else _get(cloud, "corpora") or ()
        inside = () if isinstance(cloud, list) else ("corpora",)
        for place, corpus in enumerate(listed):
            if isinstance(corpus, str) and corpus not in corpora:
                message = f"no corpus '{corpus}'{_hint(corpus, corpora, 'corpora')}"
                complaints.append(Complaint(message, ("clouds", name, *inside, place)))
    for name, probe in _mapping(study, "probes").items():
        corpus = _get(probe, "corpus")
        if not isinstance(corpus, str):
            continue
        if corpus not in corpora:
            message = f"no corpus '{corpus}'{_hint(corpus, corpora, 'corpora')}"
            complaints.append(Complaint(message, ("probes", name, "corpus")))
        elif not _get(corpora[corpus], "label"):
            message = f"corpus '{corpus}' has no labels; give it a 'label' column"
            complaints.append(Complaint(message, ("probes", name, "corpus")))
    complaints += _vocabulary(study, models)
    asked = "metrics" in (study if isinstance(study, dict) else study.model_fields_set)
    if asked and _get(study, "metrics") not in ("none", ()) and not _get(study, "corpora"):
        complaints.append(Complaint("metrics need texts; add a corpus under 'corpora'", ("metrics",), "key"))
    complaints += claim_contradictions(_mapping(study, "claims"), Known.of(study, _get))
    return complaints


def _vocabulary(study: Any, models: dict[str, Any]) -> list[Complaint]:
    """Find models in ``vocabulary`` that are not there."""
    wanted = _get(study, "vocabulary")
    bare = isinstance(wanted, list)
    names = wanted if bare else _get(wanted, "models")
    if not isinstance(names, list | tuple):
        return []
    where: tuple[str, ...] = ("vocabulary",) if bare else ("vocabulary", "models")
    return [
        Complaint(f"no model '{name}'{_hint(name, models, 'models')}", (*where, place))
        for place, name in enumerate(names)
        if isinstance(name, str) and name not in models
    ]


def _hint(wrong: str, known: dict[str, Any], what: str) -> str:
    return hint(wrong, list(known), f"{what} of this study") or f"; this study has no {what}"


def _mapping(value: Any, key: str) -> dict[str, Any]:
    found = _get(value, key)
    return found if isinstance(found, dict) else {}


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else getattr(value, key, None)
