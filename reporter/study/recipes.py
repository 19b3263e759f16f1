"""Recipes: small models that a run trains itself, from random weights or from where another recipe's model ended."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from reporter.core.errors import hint
from reporter.study.offer import Reference
from reporter.study.part import AsTuple, Complaint, Name, Part, failure, wrong
from reporter.study.problems import choices, show

LARGEST_SEED = 2**32 - 1


class _Schedule(Part):
    """The keys of training that every recipe has."""

    train_on: Name = Field(description="Corpus of this study to train on.")
    steps: int = Field(ge=0, description="Training steps; 0 keeps the initial weights.")
    checkpoints: Annotated[tuple[int, ...], AsTuple] = Field(
        (), description="Steps at which the model is saved and measured, 0 to `steps`. Default: the last step."
    )

    @model_validator(mode="before")
    @classmethod
    def _last_step_by_default(cls, value: Any) -> Any:
        if isinstance(value, dict) and "checkpoints" not in value and type(value.get("steps")) is int:
            return {**value, "checkpoints": (value["steps"],)}
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> _Schedule:
        if complaints := [*self._wrong_sizes(), *self._wrong_checkpoints()]:
            raise failure(*complaints)
        # Sorted here, once: everybody downstream may rely on it. The instance is frozen for its users only.
        object.__setattr__(self, "checkpoints", tuple(sorted(self.checkpoints)))
        return self

    def _wrong_sizes(self) -> Iterator[Complaint]:
        yield from ()

    def _wrong_checkpoints(self) -> Iterator[Complaint]:
        if not self.checkpoints:
            yield Complaint("must not be empty", ("checkpoints",))
        for index, step in enumerate(self.checkpoints):
            if not 0 <= step <= self.steps:
                yield Complaint(f"must be between 0 and `steps` ({self.steps}), got {step}", ("checkpoints", index))
            if step in self.checkpoints[:index]:
                yield Complaint(f"step {step} is listed twice; remove one of them", ("checkpoints", index))


class Recipe(_Schedule):
    """A small model to train on a corpus of the study; the same recipe always gives the same weights."""

    architecture: Literal["bert", "gpt2", "llama", "roberta"] = Field(
        description="Model family: bert and roberta are encoders, gpt2 and llama are decoders."
    )
    layers: int = Field(4, ge=1, description="Number of blocks.")
    width: int = Field(96, ge=1, description="Size of a hidden state; a multiple of `heads`.")
    heads: int = Field(4, ge=1, description="Attention heads of each block.")
    initial_scale: float = Field(
        1.0,
        gt=0,
        le=10,
        description="Standard deviation of the initial weights times √width. GPT-2, with 0.02 at width 768, has 0.55.",
    )
    seed: int = Field(0, ge=0, le=LARGEST_SEED, description="Seed of the initial weights and of the order of texts.")
    batch: int = Field(32, ge=1, description="Texts of each training step.")
    context: int = Field(32, ge=2, description="Tokens of each text in training.")
    learning_rate: float = Field(1e-3, gt=0, description="Highest learning rate of AdamW, after a warm-up.")
    mask_share: float = Field(0.3, gt=0, lt=1, description="Share of tokens that are masked to train an encoder.")
    vocabulary: int = Field(4096, ge=16, description="Largest vocabulary of the tokenizer.")

    def _wrong_sizes(self) -> Iterator[Complaint]:
        if self.width % self.heads:
            message = f"width {self.width} must be a multiple of heads ({self.heads}); change one of them"
            yield Complaint(message, ("width",))
        elif self.architecture == "llama" and (self.width // self.heads) % 2:
            message = f"llama needs an even width for each head, got {self.width} / {self.heads}; change one of them"
            yield Complaint(message, ("width",))
        if self.initial_scale > self.width**0.5:  # transformers takes no standard deviation above 1
            message = f"must be at most √width ({self.width**0.5:.3g}), got {self.initial_scale:g}"
            yield Complaint(message, ("initial_scale",))


class Tuning(_Schedule):
    """Further training of a recipe model: its weights and its tokenizer, from its last checkpoint.

    The optimiser starts again with a warm-up, and steps are counted from 0. Keys that are left out have the values of
    the recipe that `from` names.
    """

    continues: Name = Field(
        alias="from", description="Recipe model of this study to train further, from its last checkpoint."
    )
    seed: int = Field(0, ge=0, le=LARGEST_SEED, description="Seed of the order of texts.")
    batch: int | None = Field(None, ge=1, description="Texts of each training step. Default: as in `from`.")
    learning_rate: float | None = Field(
        None, gt=0, description="Highest learning rate of AdamW, after a warm-up. Default: as in `from`."
    )
    mask_share: float | None = Field(
        None, gt=0, lt=1, description="Share of tokens that are masked to train an encoder. Default: as in `from`."
    )

    @model_validator(mode="before")
    @classmethod
    def _leaves_the_model_alone(cls, value: Any) -> Any:
        decided = Recipe.model_fields.keys() - cls.model_fields.keys()
        if isinstance(value, dict) and (fixed := [key for key in value if key in decided]):
            message = "is fixed by the recipe that `from` names; remove it"
            raise failure(*(Complaint(message, (key,), "key") for key in fixed))
        return value

    def after(self, base: Recipe) -> Recipe:
        """Return the recipe in full."""
        return base.model_copy(update=self.model_dump(exclude={"continues"}, exclude_none=True))


def _read_recipe(value: Any) -> Any:
    if not isinstance(value, dict):
        raise wrong(f"expected a mapping with the key {choices(['architecture', 'from'])}, got {show(value)}")
    return (Tuning if "from" in value else Recipe).model_validate(value)


AnyRecipe = Annotated[Recipe | Tuning, BeforeValidator(_read_recipe, json_schema_input_type=Recipe | Tuning)]
"""A recipe; with a key ``from`` one that continues another."""


# Dependencies: recipes need corpora and other recipes, corpora need vocabularies and the sizes of other corpora.


Node = tuple[str, str]
"""A corpus or a model: its kind and its name."""


def origin_of(model: Any) -> str | None:
    """Return the model that a model's recipe continues; None where it continues none."""
    recipe = get(model, "recipe")
    origin = recipe.get("from") if isinstance(recipe, dict) else getattr(recipe, "continues", None)
    return origin if isinstance(origin, str) else None


def wrong_origin(name: str, models: Mapping[str, Any]) -> str | None:
    """Return the mistake in a recipe's ``from``; None if there is none."""
    origin = origin_of(models[name])
    if origin is None:
        return None
    trained = [other for other, model in models.items() if other != name and get(model, "recipe") is not None]
    if origin == name:
        return "a model cannot continue itself; name another recipe model"
    if origin not in models:
        ending = hint(origin, trained, "recipe models of this study") or "; this study has no other model with a recipe"
        return f"no model '{origin}'{ending}"
    if origin not in trained:
        return f"model '{origin}' has no recipe; name a model that has one"
    way = circle(("model", name), models, {}, ())
    return circular(way) if way is not None else None


def circle(
    start: Node, models: Mapping[str, Any], corpora: Mapping[str, Any], of_corpora: Sequence[Reference]
) -> str | None:
    """Return in words how a corpus or model depends on itself; None if it does not."""
    ways: list[tuple[Node, list[str]]] = [(start, [])]
    visited = set()
    while ways:
        here, way = ways.pop()
        for needed, how in _needs(here, models, corpora, of_corpora):
            if needed == start:
                return f"{start[0]} '{start[1]}' " + ", which ".join([*way, how])
            if needed not in visited:
                visited.add(needed)
                ways.append((needed, [*way, how]))
    return None


def circular(way: str) -> str:
    """Return the message about a dependency of a part on itself, as :func:`circle` describes it."""
    return f"circular reference: {way}; change one of these keys"


def _needs(
    node: Node, models: Mapping[str, Any], corpora: Mapping[str, Any], of_corpora: Sequence[Reference]
) -> Iterator[tuple[Node, str]]:
    """Yield what a corpus or model needs before it can be made, and this dependency in words."""
    kind, name = node
    if kind == "corpus":
        for reference in of_corpora:
            for other, _ in reference.named(corpora.get(name)):
                yield ("model" if reference.to == "models" else "corpus", other), f"{reference.says} '{other}'"
        return
    corpus = get(get(models.get(name), "recipe"), "train_on")
    if isinstance(corpus, str):
        yield ("corpus", corpus), f"is trained on corpus '{corpus}'"
    origin = origin_of(models.get(name))
    if origin is not None:
        yield ("model", origin), f"continues model '{origin}'"


def share_name(corpus: str, label: str) -> str:
    """Return the name of the corpus of one label: CORPUS.LABEL, with '-' for characters that no name may have."""
    return f"{corpus}.{re.sub(r'[^A-Za-z0-9._-]+', '-', label)}"


def shares_of(corpora: Mapping[str, Any]) -> dict[str, str]:
    """Return the corpus of each share that corpora define with ``by``, by the name of the share."""
    labels = {name: get(corpus, "by") for name, corpus in corpora.items()}
    return {
        share_name(name, label): name
        for name, by in labels.items()
        for label in (by if isinstance(by, list | tuple) else ())
        if isinstance(label, str)
    }


def with_shares_of(corpora: Mapping[str, Any]) -> dict[str, Any]:
    """Return corpora, each followed by its shares; before validation a share has the content of its corpus."""
    shares, expanded = shares_of(corpora), {}
    for name in corpora:
        for corpus_name in (name, *(share for share, whole in shares.items() if whole == name)):
            expanded[corpus_name] = corpora.get(corpus_name, corpora[name])
    return expanded


def no_such(noun: str, name: str, names: Iterable[str], many: str) -> str:
    """Return the message that a study has no model, corpus or the like of a name, with the names that it has."""
    return f"no {noun} '{name}'" + (hint(name, list(names), f"{many} of this study") or f"; add it under `{many}`")


def get(value: Any, key: str) -> Any:
    """Return the value of a key of a part, whether the part was validated or is still a mapping."""
    return value.get(key) if isinstance(value, dict) else getattr(value, key, None)
