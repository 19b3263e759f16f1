"""Models: from a hub, from a folder, or trained from a recipe."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from reporter.spec.part import AsPath, AsTuple, Complaint, Name, Part, Text, failure, one_of
from reporter.spec.problems import show

LARGEST_SEED = 2**32 - 1

Dtype = Literal["auto", "float32", "bfloat16", "float16"]


class CheckpointSpec(Part):
    """One state of a model in training.

    Args:
        name: a hub revision, or a sub-folder of the model's path.
        step: the training step; None where it is not known.
    """

    name: str
    step: int | None = None


class _Revision(Part):
    revision: Text = Field(description="A hub revision: a branch, a tag or a commit.")
    step: int | None = Field(
        None, ge=0, description="The training step; read from the name's last digits where it is left out."
    )


class _Folder(Part):
    folder: Text = Field(description="A sub-folder of the model's path.")
    step: int | None = Field(
        None, ge=0, description="The training step; read from the name's last digits where it is left out."
    )


def step_of(name: str) -> int | None:
    """Read a training step from the last digits of a name: 512 from ``step512`` or ``ckpt-512``.

    A commit hash or a version such as ``v1.0`` has no step.
    """
    if re.fullmatch(r"[0-9a-f]{7,40}", name) and not (name.isdecimal() and len(name) < 40):
        return None
    found = re.search(r"(?:^|[A-Za-z_/-])([0-9]{1,18})$", name)
    return int(found[1]) if found else None


def _checkpoint_of(kind: type[_Revision] | type[_Folder]) -> BeforeValidator:
    key = "revision" if kind is _Revision else "folder"

    def read(value: Any) -> Any:
        if isinstance(value, CheckpointSpec):
            return value
        if isinstance(value, str):
            value = {key: value}
        elif not isinstance(value, dict):
            example = "step512" if kind is _Revision else "ckpt-500"
            message = f"expected a name or a mapping such as {{{key}: {example}, step: 512}}, got {show(value)}"
            raise failure(Complaint(message))
        checked = kind.model_validate(value)
        name = str(getattr(checked, key))
        step = checked.step if checked.step is not None else step_of(name)
        return CheckpointSpec(name=name, step=step)

    return BeforeValidator(read, json_schema_input_type=str | kind)


def _distinct(checkpoints: tuple[CheckpointSpec, ...]) -> tuple[CheckpointSpec, ...]:
    seen: set[str] = set()
    for index, checkpoint in enumerate(checkpoints):
        if checkpoint.name in seen:
            raise failure(Complaint(f"checkpoint '{checkpoint.name}' is listed twice", (index,)))
        seen.add(checkpoint.name)
    return checkpoints


def _hub_id(value: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?", value, re.ASCII):
        return value
    if value.startswith((".", "/", "~")) or value.count("/") > 1 or "\\" in value:
        raise failure(Complaint(f"{show(value)} is not a hub id; for a folder write {{path: {value}}}"))
    raise failure(Complaint(f"expected a hub id such as 'bert-base-uncased' or 'owner/name', got {show(value)}"))


class _Weights(Part):
    """What models that already have weights share."""

    dtype: Dtype = Field(
        "float32", description="The precision in which weights are loaded; 'auto' is that of the checkpoint."
    )
    trust_remote_code: bool = Field(False, description="Let the model's repository run its own Python code.")
    allow_pickle: bool = Field(
        False, description="Load weights that are only there as pickle, which can run code; safetensors else."
    )


class _Related(Part):
    """How a model is related to others of the study, and how well it does elsewhere."""

    base: Name | None = Field(None, description="The model of this study that it was tuned from.")
    scores: dict[Name, float] = Field(
        {}, description="Scores from elsewhere, such as {sst2: 0.93}, to correlate with what is measured."
    )


class HubModel(_Weights, _Related):
    """A model from a hub."""

    hub: Annotated[Text, AfterValidator(_hub_id)] = Field(description="A hub id: 'owner/name' or 'name'.")
    revision: Text | None = Field(None, description="A branch, tag or commit; the main branch if left out.")
    checkpoints: Annotated[
        tuple[Annotated[CheckpointSpec, _checkpoint_of(_Revision)], ...], AsTuple, AfterValidator(_distinct)
    ] = Field((), description="Revisions to measure, one after the other: names, or {revision:, step:}.")

    @model_validator(mode="after")
    def _one_way_to_name_revisions(self) -> HubModel:
        if self.revision is not None and self.checkpoints:
            message = "'revision' and 'checkpoints' exclude each other; each checkpoint is a revision"
            raise failure(Complaint(message, ("revision",), "key"))
        return self


class PathModel(_Weights, _Related):
    """A model in a folder, in the format of ``save_pretrained``."""

    path: Annotated[Path, AsPath] = Field(description="The folder, relative to the study file or absolute.")
    checkpoints: Annotated[
        tuple[Annotated[CheckpointSpec, _checkpoint_of(_Folder)], ...], AsTuple, AfterValidator(_distinct)
    ] = Field((), description="Sub-folders to measure, one after the other: names, or {folder:, step:}.")

    @model_validator(mode="after")
    def _folders_are_inside(self) -> PathModel:
        for index, checkpoint in enumerate(self.checkpoints):
            folder = PurePosixPath(checkpoint.name)
            if folder.is_absolute() or ".." in folder.parts:
                message = f"must be a sub-folder of 'path', got {show(checkpoint.name)}"
                raise failure(Complaint(message, ("checkpoints", index)))
        return self


class Recipe(Part):
    """A small model to train on a corpus of the study; the same recipe always gives the same weights."""

    architecture: Literal["bert", "gpt2", "llama", "roberta"] = Field(
        description="The family; bert and roberta are encoders, gpt2 and llama decoders."
    )
    layers: int = Field(4, ge=1, description="Blocks.")
    width: int = Field(96, ge=1, description="Size of a hidden state; a multiple of heads.")
    heads: int = Field(4, ge=1, description="Attention heads in each block.")
    train_on: Name = Field(description="The corpus of this study that it is trained on.")
    steps: int = Field(ge=0, description="Steps of training; 0 leaves random weights.")
    checkpoints: Annotated[tuple[int, ...], AsTuple] = Field(
        (), description="Steps at which the model is kept and measured, 0 to steps; the last one if left out."
    )
    seed: int = Field(0, ge=0, le=LARGEST_SEED, description="Decides the first weights and the order of texts.")
    batch: int = Field(32, ge=1, description="Texts in each step.")
    context: int = Field(32, ge=2, description="Tokens of each text.")
    learning_rate: float = Field(1e-3, gt=0, description="The peak of AdamW's rate, after a warm-up.")
    mask_share: float = Field(0.3, gt=0, lt=1, description="Share of tokens that an encoder has to guess.")
    vocabulary: int = Field(4096, ge=16, description="The most entries that its tokenizer may have.")

    @model_validator(mode="before")
    @classmethod
    def _last_step_by_default(cls, value: Any) -> Any:
        if isinstance(value, dict) and "checkpoints" not in value and type(value.get("steps")) is int:
            return {**value, "checkpoints": (value["steps"],)}
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Recipe:
        complaints = []
        if self.width % self.heads:
            message = f"width {self.width} is not a multiple of heads {self.heads}"
            complaints.append(Complaint(message, ("width",)))
        elif self.architecture == "llama" and (self.width // self.heads) % 2:
            message = f"llama needs an even width for each head, got {self.width} / {self.heads}"
            complaints.append(Complaint(message, ("width",)))
        if not self.checkpoints:
            complaints.append(Complaint("must not be empty", ("checkpoints",)))
        for index, step in enumerate(self.checkpoints):
            if not 0 <= step <= self.steps:
                message = f"must be between 0 and steps ({self.steps}), got {step}"
                complaints.append(Complaint(message, ("checkpoints", index)))
            if step in self.checkpoints[:index]:
                complaints.append(Complaint(f"step {step} is listed twice", ("checkpoints", index)))
        if complaints:
            raise failure(*complaints)
        # Sorted here, once: everybody downstream may rely on it. The instance is frozen for its users only.
        object.__setattr__(self, "checkpoints", tuple(sorted(self.checkpoints)))
        return self


class RecipeModel(_Related):
    """A model that the run trains before it measures it."""

    recipe: Recipe = Field(description="What to build and how to train it.")


_KINDS: dict[str, type[Part]] = {"hub": HubModel, "path": PathModel, "recipe": RecipeModel}
_read_mapping = one_of(_KINDS, "{hub: owner/name}")


def _read_model(value: Any, info: ValidationInfo) -> Any:
    return _read_mapping({"hub": value} if isinstance(value, str) else value, info)


ModelSpec = Annotated[
    HubModel | PathModel | RecipeModel,
    BeforeValidator(_read_model, json_schema_input_type=str | HubModel | PathModel | RecipeModel),
]
"""A hub id as text, or a mapping told apart by its key ``hub``, ``path`` or ``recipe``."""
