"""Which answers open a study: what the study orders decides.

A study that names a base asks what changed; one with probes or pairs of texts, which layer; one that removes blocks,
which blocks; one with claims, whether they hold; one with checkpoints, when; one with trajectories, where its words go.
Without any of these it compares its models. Where a study has encoders and decoders, their comparison comes before
training and concepts, which are about one model at a time.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from reporter.judge.questions.layer import measures_use
from reporter.judge.questions.question import Record
from reporter.judge.questions.training import leading

COMPARISON = "models"
"""The comparison of the models of a study, which has no table of its own."""
CLAIMS = "claims"
ORDER = ("changed", "layer", "blocks", CLAIMS, COMPARISON, "training", "concepts", "journeys")
_PICTURES = {
    "changed": "change.distance",
    "blocks": "skip.change",
    "concepts": "pairs.consistency",
    "journeys": "journeys.asked",
}


class Lead(NamedTuple):
    """An answer that opens a study, and the chart that shows it."""

    name: str
    picture: str


def leads(answers: Mapping[str, Mapping[str, Iterable[Record]]], compared: bool, claimed: bool = False) -> list[Lead]:
    """Return the answers that a study's orders ask for, the first of which opens its report.

    Args:
        answers: by the name of its question each answer's rows, by table.
        compared: whether the study has models of both roles.
        claimed: whether the study has claims.
    """
    of_study = {COMPARISON: compared, CLAIMS: claimed}
    named = [name for name in ORDER if of_study.get(name, name in answers)]
    pictures = dict(_PICTURES)
    if "training" in named:
        pictures["training"] = f"{leading(answers['training']['training_answers'])}.training"
    chosen = [Lead(name, pictures.get(name, "")) for name in named if name != "layer"]
    if "layer" in named and (criterion := measures_use(answers["layer"]["layer_answers"])):
        place = sum(lead.name == "changed" for lead in chosen)
        chosen.insert(place, Lead("layer", criterion))
    return chosen or [Lead(COMPARISON, "")]
