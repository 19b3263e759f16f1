"""Models: from a hub, from a folder, trained from a recipe, or given by states that were computed elsewhere."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from reporter.spec.part import AsPath, AsTuple, Complaint, Name, Part, Text, failure, one_of
from reporter.spec.problems import show
from reporter.spec.recipes import AnyRecipe, Tuning

Dtype = Literal["auto", "float32", "bfloat16", "float16"]


class CheckpointSpec(Part):
    """One state of a model in training.

    Args:
        name: a hub revision, or a sub-folder of the model's path.
        step: the training step; None where it is not known.
    """

    name: str
    step: int | None = None


_Step = Annotated[
    Annotated[int, Field(ge=0)] | None,
    Field(description="The training step; read from names such as step512 or ckpt-512 if left out."),
]


class _Revision(Part):
    revision: Text = Field(description="A hub revision: a branch, a tag or a commit.")
    step: _Step = None


class _Folder(Part):
    folder: Text = Field(description="A sub-folder of the model's path.")
    step: _Step = None


_STEP = re.compile(
    r"(?:^|[^a-z0-9])(?:global_?)?(?:steps?|ckpt|checkpoint|iter|iteration)[-_]?(\d{1,18})$", re.IGNORECASE
)


def step_of(name: str) -> int | None:
    """Read the training step from the name of a checkpoint: 512 from ``step512``, ``ckpt-512`` or ``512``.

    Digits of another meaning are no step: those of a release (``v2``, ``release-2024``) or of a commit.
    """
    if name.isdecimal() and len(name) <= 18:
        return int(name)
    match = _STEP.search(name)
    return int(match[1]) if match else None


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


def _in_order(checkpoints: tuple[CheckpointSpec, ...]) -> tuple[CheckpointSpec, ...]:
    names = [checkpoint.name for checkpoint in checkpoints]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise failure(Complaint(f"checkpoint '{name}' is listed twice", (index,)))
    if any(checkpoint.step is None for checkpoint in checkpoints):
        return checkpoints
    return tuple(sorted(checkpoints, key=lambda checkpoint: checkpoint.step or 0))


HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?", re.ASCII)


def _hub_id(value: str) -> str:
    if HUB_ID.fullmatch(value):
        return value
    if value.startswith((".", "/", "~")) or value.count("/") > 1 or "\\" in value:
        raise failure(Complaint(f"{show(value)} is not a hub id; for a folder write {{path: {value}}}"))
    raise failure(Complaint(f"expected a hub id such as 'bert-base-uncased' or 'owner/name', got {show(value)}"))


class _Weights(Part):
    """The keys of models that already have weights."""

    dtype: Dtype = Field(
        "float32", description="The precision in which weights are loaded; 'auto' is that of the checkpoint."
    )
    trust_remote_code: bool = Field(False, description="Let the model's repository run its own Python code.")
    allow_pickle: bool = Field(
        False, description="Load weights that are only there as pickle, which can run code; safetensors else."
    )
    adapter: Annotated[Path, AsPath] | None = Field(
        None,
        description="The folder of an adapter that PEFT saved, such as a LoRA: it is merged into the weights of this "
        "model, its base.",
    )
    part: Literal["encoder", "decoder"] | None = Field(
        None,
        description="Of an encoder–decoder such as T5, which half is measured: the encoder where it is left out. The "
        "decoder reads the text beside its encoder, which reads the same text.",
    )

    device_map: Literal["auto"] | None = Field(
        None,
        description="'auto' has accelerate spread a model that is too large for one device over all of them, what does "
        "not fit there into main memory, and what does not fit there on disk; its states are gathered on run.device.",
    )
    max_memory: dict[Annotated[str, Field(pattern=r"^(cpu|\d+)$")], Text] = Field(
        {},
        description="How much of each device 'device_map' may fill, such as 20GiB: of a GPU, by its number in quotes, "
        "and of 'cpu'; all that is free where it is left out.",
    )
    offload_folder: Annotated[Path, AsPath] | None = Field(
        None,
        description="Where 'device_map' puts weights that fit nowhere else; those of safetensors stay where they are.",
    )

    @model_validator(mode="after")
    def _split_as_it_was_saved(self) -> _Weights:
        for key in ("max_memory", "offload_folder"):
            if getattr(self, key) and self.device_map is None:
                raise failure(Complaint(f"'{key}' needs `device_map: auto`", (key,), "key"))
        if self.device_map and self.adapter:
            message = "an adapter cannot be merged into a model that is split; merge it with PEFT, and save that"
            raise failure(Complaint(message, ("adapter",), "key"))
        return self


class _Related(Part):
    """The relations of a model to others of the study, and its scores elsewhere."""

    base: Name | None = Field(
        None, description="The model of this study that it was tuned from; of a recipe with 'from' that one."
    )
    twin: Name | None = Field(
        None,
        description="The model of this study that is the same one from another seed, so that what tells the two apart "
        "is noise; two recipes that differ in their seed alone need not say it.",
    )
    scores: dict[Name, float] = Field(
        {}, description="Scores from elsewhere, such as {sst2: 0.93}, to correlate with what is measured."
    )


class _Reading(Part):
    """The keys of models that read texts here."""

    bos: Literal["as-is", "add", "none"] = Field(
        "as-is",
        description="Whether a BOS stands before each text: 'add' one where the tokenizer puts none, 'none' to leave "
        "out what it puts there, or 'as-is'. Of a decoder it decides which token becomes the sink.",
    )


class HubModel(_Weights, _Related, _Reading):
    """A model from a hub."""

    hub: Annotated[Text, AfterValidator(_hub_id)] = Field(description="A hub id: 'owner/name' or 'name'.")
    revision: Text | None = Field(None, description="A branch, tag or commit; the main branch if left out.")
    tokenizer: Annotated[Text, AfterValidator(_hub_id)] | None = Field(
        None,
        description="Another hub id whose tokenizer to use: repositories of intermediate checkpoints may have none.",
    )
    checkpoints: Annotated[
        tuple[Annotated[CheckpointSpec, _checkpoint_of(_Revision)], ...], AsTuple, AfterValidator(_in_order)
    ] = Field(
        (),
        description="Revisions to measure, in the order of training: names, or {revision:, step:}. The last one stands "
        "for the model wherever only one is compared; where the steps of all are known, the highest step is last.",
    )

    @model_validator(mode="after")
    def _one_way_to_name_revisions(self) -> HubModel:
        if self.revision is not None and self.checkpoints:
            message = "'revision' and 'checkpoints' exclude each other; each checkpoint is a revision"
            raise failure(Complaint(message, ("revision",), "key"))
        return self


class PathModel(_Weights, _Related, _Reading):
    """A model in a folder, in the format of ``save_pretrained``, or in one GGUF file."""

    path: Annotated[Path, AsPath] = Field(
        description="The folder, or a GGUF file, relative to the study file or absolute."
    )
    checkpoints: Annotated[
        tuple[Annotated[CheckpointSpec, _checkpoint_of(_Folder)], ...], AsTuple, AfterValidator(_in_order)
    ] = Field(
        (),
        description="Sub-folders to measure, in the order of training: names, or {folder:, step:}. The last one stands "
        "for the model wherever only one is compared; where the steps of all are known, the highest step is last.",
    )

    @model_validator(mode="after")
    def _folders_are_inside(self) -> PathModel:
        for index, checkpoint in enumerate(self.checkpoints):
            folder = PurePosixPath(checkpoint.name)
            if folder.is_absolute() or ".." in folder.parts:
                message = f"must be a sub-folder of 'path', got {show(checkpoint.name)}"
                raise failure(Complaint(message, ("checkpoints", index)))
        return self


class RecipeModel(_Related, _Reading):
    """A model that the run trains before it measures it."""

    def differs_in_seed(self, other: Any) -> bool:
        """Tell whether another model is trained by the same recipe from another seed, from the same base."""
        if not isinstance(other, RecipeModel) or type(other.recipe) is not type(self.recipe):
            return False
        same = other.recipe.model_copy(update={"seed": self.recipe.seed}) == self.recipe
        return same and other.recipe.seed != self.recipe.seed and (other.base, other.bos) == (self.base, self.bos)

    recipe: AnyRecipe = Field(
        description="What to build and how to train it; with 'from', which recipe model to train further."
    )

    @model_validator(mode="after")
    def _tuned_from_its_base(self) -> RecipeModel:
        if isinstance(self.recipe, Tuning) and "base" not in self.model_fields_set:
            object.__setattr__(self, "base", self.recipe.continues)  # the instance is frozen for its users only
        return self


def _read_states(value: Any) -> Any:
    if not isinstance(value, dict):
        message = f"expected a file for each corpus, such as {{wiki: big-on-wiki.safetensors}}, got {show(value)}"
        raise failure(Complaint(message))
    return value


class StatesModel(_Related):
    """A model that ran elsewhere, given by its hidden states; ``reporter.save_states`` writes such files."""

    states: Annotated[dict[Name, Annotated[Path, AsPath]], BeforeValidator(_read_states)] = Field(
        min_length=1,
        description="For each corpus the safetensors file of its states, relative to the study file or absolute.",
    )
    role: Literal["encoder", "decoder"] | None = Field(
        None, description="Whether a token saw later ones (encoder) or not (decoder), where the files do not tell."
    )


_KINDS: dict[str, type[Part]] = {"hub": HubModel, "path": PathModel, "recipe": RecipeModel, "states": StatesModel}
_read_mapping = one_of(_KINDS, "{hub: owner/name}")


def _read_model(value: Any, info: ValidationInfo) -> Any:
    return _read_mapping({"hub": value} if isinstance(value, str) else value, info)


ModelSpec = Annotated[
    HubModel | PathModel | RecipeModel | StatesModel,
    BeforeValidator(_read_model, json_schema_input_type=str | HubModel | PathModel | RecipeModel | StatesModel),
]
"""A hub id as text, or a mapping told apart by its key ``hub``, ``path``, ``recipe`` or ``states``."""
