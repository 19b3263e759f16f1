"""Recipes: small models that a run trains itself, from random weights or from where another recipe's model ended."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from reporter.core.errors import hint
from reporter.spec.offer import Reference
from reporter.spec.part import AsTuple, Complaint, Name, Part, failure
from reporter.spec.problems import choices, show

LARGEST_SEED = 2**32 - 1


class _Schedule(Part):
    """The keys of training that every recipe has."""

    train_on: Name = Field(description="The corpus of this study that it is trained on.")
    steps: int = Field(ge=0, description="Steps of training; 0 leaves the weights that it begins with.")
    checkpoints: Annotated[tuple[int, ...], AsTuple] = Field(
        (), description="Steps at which the model is kept and measured, 0 to steps; the last one if left out."
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
                message = f"must be between 0 and steps ({self.steps}), got {step}"
                yield Complaint(message, ("checkpoints", index))
            if step in self.checkpoints[:index]:
                yield Complaint(f"step {step} is listed twice", ("checkpoints", index))


class Recipe(_Schedule):
    """A small model to train on a corpus of the study; the same recipe always gives the same weights."""

    architecture: Literal["bert", "gpt2", "llama", "roberta"] = Field(
        description="The family; bert and roberta are encoders, gpt2 and llama decoders."
    )
    layers: int = Field(4, ge=1, description="Blocks.")
    width: int = Field(96, ge=1, description="Size of a hidden state; a multiple of heads.")
    heads: int = Field(4, ge=1, description="Attention heads in each block.")
    initial_scale: float = Field(
        1.0,
        gt=0,
        le=10,
        description="Standard deviation of the first weights times √width: GPT-2 itself, with 0.02 at 768, has 0.55.",
    )
    seed: int = Field(0, ge=0, le=LARGEST_SEED, description="Decides the first weights and the order of texts.")
    batch: int = Field(32, ge=1, description="Texts in each step.")
    context: int = Field(32, ge=2, description="Tokens of each text.")
    learning_rate: float = Field(1e-3, gt=0, description="The peak of AdamW's rate, after a warm-up.")
    mask_share: float = Field(0.3, gt=0, lt=1, description="Share of tokens that an encoder has to guess.")
    vocabulary: int = Field(4096, ge=16, description="The most entries that its tokenizer may have.")

    def _wrong_sizes(self) -> Iterator[Complaint]:
        if self.width % self.heads:
            message = f"width {self.width} is not a multiple of heads {self.heads}"
            yield Complaint(message, ("width",))
        elif self.architecture == "llama" and (self.width // self.heads) % 2:
            message = f"llama needs an even width for each head, got {self.width} / {self.heads}"
            yield Complaint(message, ("width",))
        if self.initial_scale > self.width**0.5:  # transformers takes no standard deviation above 1
            most = f"√width is {self.width**0.5:.3g}"
            yield Complaint(f"must not exceed √width, got {self.initial_scale:g}; {most}", ("initial_scale",))


class Tuning(_Schedule):
    """A recipe's model, trained further: with its weights and its tokenizer, from its last checkpoint on.

    The optimiser begins anew, with its own warm-up, and steps are counted from there. What is left out is as in the
    recipe that it continues.
    """

    continues: Name = Field(
        alias="from", description="The recipe model of this study that it continues, from that one's last checkpoint."
    )
    seed: int = Field(0, ge=0, le=LARGEST_SEED, description="Decides the order of texts.")
    batch: int | None = Field(None, ge=1, description="Texts in each step; as before if left out.")
    learning_rate: float | None = Field(
        None, gt=0, description="The peak of AdamW's rate, after a warm-up; as before if left out."
    )
    mask_share: float | None = Field(
        None, gt=0, lt=1, description="Share of tokens that an encoder has to guess; as before if left out."
    )

    @model_validator(mode="before")
    @classmethod
    def _leaves_the_model_alone(cls, value: Any) -> Any:
        decided = Recipe.model_fields.keys() - cls.model_fields.keys()
        if isinstance(value, dict) and (fixed := [key for key in value if key in decided]):
            message = f"is decided by the recipe that it continues, {show(value['from'])}; leave it out"
            raise failure(*(Complaint(message, (key,), "key") for key in fixed))
        return value

    def after(self, base: Recipe) -> Recipe:
        """Return the recipe in full."""
        settings = self.model_dump(exclude={"continues"}, exclude_none=True)
        return base.model_copy(update=settings)


def _read_recipe(value: Any) -> Any:
    if not isinstance(value, dict):
        if isinstance(value, _Schedule):
            return value
        message = f"expected a mapping with {choices(['architecture', 'from'])}, got {show(value)}"
        raise failure(Complaint(message))
    return (Tuning if "from" in value else Recipe).model_validate(value)


AnyRecipe = Annotated[Recipe | Tuning, BeforeValidator(_read_recipe, json_schema_input_type=Recipe | Tuning)]
"""A recipe; with a key ``from`` one that continues another."""


# What waits for what: recipes need corpora and other recipes, corpora need vocabularies and the size of others.


Node = tuple[str, str]
"""A corpus or a model: its kind and its name."""


def origin_of(model: Any) -> str | None:
    """Return the model that a model's recipe continues; None where it continues none."""
    recipe = get(model, "recipe")
    origin = recipe.get("from") if isinstance(recipe, dict) else getattr(recipe, "continues", None)
    return origin if isinstance(origin, str) else None


def wrong_origin(name: str, models: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the model that a recipe continues; empty if nothing is."""
    origin = origin_of(models[name])
    if origin is None:
        return None
    trained = [other for other, model in models.items() if other != name and get(model, "recipe") is not None]
    if origin == name:
        return "a model cannot continue itself"
    if origin not in models:
        ending = hint(origin, trained, "recipe models of this study") or "; this study has no other recipe models"
        return f"no model '{origin}'{ending}"
    if origin not in trained:
        return f"model '{origin}' is not trained from a recipe, and only such a model can be continued"
    way = circle(("model", name), models, {}, ())
    return f"goes in a circle: {way}" if way is not None else None


def circle(
    start: Node, models: Mapping[str, Any], corpora: Mapping[str, Any], of_corpora: Sequence[Reference]
) -> str | None:
    """Describe the way from a corpus or model through what it needs back to itself; None if there is none."""
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


def _needs(
    node: Node, models: Mapping[str, Any], corpora: Mapping[str, Any], of_corpora: Sequence[Reference]
) -> Iterator[tuple[Node, str]]:
    """Yield what a corpus or model needs before it can be made, and how a person would say so."""
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
    """Return what the share of a corpus is called: its name and the label, with what no name may hold as '-'."""
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
    """Return that a study has no model, corpus or the like of a name, and which ones it has."""
    return f"no {noun} '{name}'" + (hint(name, list(names), f"{many} of this study") or f"; this study has no {many}")


def get(value: Any, key: str) -> Any:
    """Return what a part of a study says under a key, whether it was read already or is as its file says it."""
    return value.get(key) if isinstance(value, dict) else getattr(value, key, None)
