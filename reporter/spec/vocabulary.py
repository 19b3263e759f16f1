"""Static embeddings: which models' token, position and type vectors to look at."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from reporter.spec.part import AsTuple, Name, Part

Map = Literal["tsne", "umap"]


class VocabularySpec(Part):
    """Which models, and how much of them is listed and drawn."""

    models: Literal["all"] | Annotated[tuple[Name, ...], AsTuple] = Field(
        "all", description="Models of this study, or 'all'; of each the last checkpoint is looked at."
    )
    extremes: int = Field(20, ge=0, le=200, description="Tokens and pairs listed at each end of each measure.")
    outlier_threshold: float = Field(
        0.2, gt=0, lt=1, description="From which |cosine| on a token and a position are outliers."
    )
    points: int = Field(2000, ge=10, le=20000, description="Tokens in a picture, drawn at random.")
    maps: Annotated[tuple[Map, ...], AsTuple] = Field(
        ("tsne",), description="Pictures besides the principal components: 'tsne', 'umap' (needs the extra 'umap')."
    )


def _read(value: Any) -> Any:
    if value == "all" or isinstance(value, list | tuple):
        return {"models": value}
    return value


Vocabulary = Annotated[
    VocabularySpec, BeforeValidator(_read, json_schema_input_type=Literal["all"] | list[str] | VocabularySpec)
]
"""``all``, a list of models, or a mapping with more to say."""
