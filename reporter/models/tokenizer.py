"""Loads a checkpoint's tokenizer."""

import hashlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from reporter.core.children import CAN_FORK, MEMORY, SECONDS, Limit, in_child
from reporter.core.errors import ReporterError, failing_as, failures
from reporter.core.json_text import read_json
from reporter.models.checkpoint import Checkpoint
from reporter.models.model_folder import TOKENIZER_CONFIG, needs_code, tokenizer_files, tokenizer_folder
from reporter.models.parts import decoder_start


def load_tokenizer(checkpoint: Checkpoint, folder: Path, offline: bool) -> Any:
    """Return the tokenizer of the model in ``folder``, padding on the right.

    A checkpoint in a sub-folder without a tokenizer has that of the folder above; a study may name another repository.
    """
    tokenizer = _read(checkpoint, _place(checkpoint, folder, offline), folder, offline)
    adapter = checkpoint.adapter
    if adapter is not None and checkpoint.tokenizer is None and tokenizer_files(adapter):  # with tokens that it added
        of_base, tokenizer = tokenizer, _read(checkpoint, adapter, folder, offline)
        if (rules := _rules(tokenizer)) and rules == _rules(of_base):  # it may have another padding token
            of_base.chat_template, tokenizer = tokenizer.chat_template, of_base
    # On the right always: GPT-2 padded on the left without position ids gives wrong states, not an error.
    tokenizer.padding_side = "right"
    tokenizer.truncation_side = "right"
    if checkpoint.bos != "as-is":
        _begin_with(tokenizer, checkpoint.bos)
    if checkpoint.part == "decoder" and (start := decoder_start(folder)) is not None:
        before, after = added_tokens(tokenizer)
        _frame(tokenizer, [tokenizer.convert_ids_to_tokens(start), *before], after, "part: decoder")
    return tokenizer


def _read(checkpoint: Checkpoint, place: Path, folder: Path, offline: bool) -> Any:
    from transformers import AutoTokenizer

    of_file = checkpoint.source_file if place == folder else {}
    kind = AutoTokenizer if of_file else _class(place)

    def read() -> Any:
        with failing_as(f"cannot read the tokenizer in {place}"):
            try:
                return kind.from_pretrained(
                    str(place),
                    **of_file,
                    trust_remote_code=checkpoint.trust_remote_code,
                    local_files_only=offline or not checkpoint.trust_remote_code,
                )
            except failures() as error:
                if not checkpoint.trust_remote_code and "trust_remote_code" in str(error):
                    raise needs_code(place) from error
                if "tiktoken" in str(error) and (lacking := _package_of(place)):
                    raise ReporterError(
                        f"the tokenizer in {place} is a file of {lacking}; run `pip install {lacking}`, or save it as "
                        f"{_OF_RUST}"
                    ) from error
                raise

    def attempt() -> None:
        tokenizer = read()
        with failing_as(f"the tokenizer in {place} fails on a short text"):
            added_tokens(tokenizer)

    if checkpoint.recipe is None:
        try_tokenizer(attempt, place)
    return read()


def _rules(tokenizer: Any) -> str:
    """Return how a fast tokenizer reads texts, as JSON; empty for a slow one, which cannot be read."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return ""
    backend.no_truncation()  # what the last call asked for; each call says it again
    backend.no_padding()
    return str(backend.to_str())


_OF_RUST = "tokenizer.json"


def _package_of(place: Path) -> str:
    """Return the package that the file of a tokenizer without a tokenizer.json needs; empty if it is installed."""
    first = next((file.read_bytes()[:1] for file in sorted(place.glob("*.model"))), b"")
    package = "sentencepiece" if first == b"\n" else "tiktoken"  # the first field of a SentencePiece file
    return package if find_spec(package) is None else ""


_SLOWEST = 1e6  # bytes of it a second; a large one of 20 MB takes one second
_BYTES = 100  # of memory for each of its bytes


def try_tokenizer(attempt: Callable[[], object], place: Path) -> None:
    """Read the tokenizer.json of a folder in a child process first: its rules can hang, fill the memory, or crash.

    Args:
        attempt: reads the tokenizer, and a short text with it.
        place: the folder.

    Raises:
        ReporterError: the attempt fails, or takes too much time or memory.
    """
    if not CAN_FORK or not (place / _OF_RUST).is_file():
        return
    size = (place / _OF_RUST).stat().st_size
    what, remedy = f"reading the tokenizer in {place}", f"check `normalizer` and `pre_tokenizer` in its {_OF_RUST}"
    in_child(lambda: bool(attempt()), Limit(what, remedy, SECONDS + size / _SLOWEST, MEMORY + size * _BYTES))


def tokenizer_hash(tokenizer: Any) -> str:
    """Return a hash of all that a fast tokenizer does to texts, the same for equal ones; empty for a slow one."""
    if not (rules := _rules(tokenizer)):
        return ""
    from tokenizers import __version__ as tokenizers_version
    from transformers import __version__ as transformers_version

    parts = (type(tokenizer).__name__, sorted(tokenizer.all_special_ids), str(tokenizer.special_tokens_map))
    more = (getattr(tokenizer, "split_special_tokens", False), transformers_version, tokenizers_version)
    return hashlib.sha256(repr((*parts, *more, rules)).encode()).hexdigest()[:32]


def added_tokens(tokenizer: Any) -> tuple[list[str], list[str]]:
    """Return the tokens that a tokenizer puts before and after a text.

    Not every tokenizer can read an "a", as those of proteins cannot: then tokens of its own are tried as texts.
    """
    problem: BaseException | None = None
    for text in chain(["a"], _own_texts(tokenizer)):
        try:
            encoded = tokenizer(text, return_special_tokens_mask=True)
        except failures() as error:  # it may have no token for what it does not know
            problem = problem or error
            continue
        tokens = tokenizer.convert_ids_to_tokens(encoded["input_ids"])
        places = [place for place, special in enumerate(encoded["special_tokens_mask"]) if not special]
        if places:
            return tokens[: places[0]], tokens[places[-1] + 1 :]
    if problem is not None:
        raise problem
    return [], []


_TRIED = 200


def _own_texts(tokenizer: Any) -> Iterator[str]:
    for i in range(min(_TRIED, len(tokenizer))):
        if i not in tokenizer.all_special_ids:
            yield tokenizer.decode([i])


def _begin_with(tokenizer: Any, bos: Literal["add", "none"]) -> None:
    """Make a tokenizer put a BOS before each text, or nothing; what it puts after a text stays."""
    before, after = added_tokens(tokenizer)
    if bool(before) == (bos == "add"):
        return
    begin = tokenizer.bos_token or tokenizer.cls_token if bos == "add" else None
    if bos == "add" and begin is None:
        raise ReporterError("`bos: add` needs a BOS token, but the tokenizer has none; remove `bos`")
    _frame(tokenizer, [] if begin is None else [begin], after, f"bos: {bos}")


def _frame(tokenizer: Any, begin: list[str], after: list[str], where: str) -> None:
    """Make a tokenizer put these tokens before and after each text."""
    backend, key = getattr(tokenizer, "backend_tokenizer", None), where.partition(":")[0]
    if backend is None:
        raise ReporterError(
            f"`{where}` needs a fast tokenizer with a tokenizer.json, but this tokenizer is slow; "
            f"remove `{key}`, or convert it"
        )
    from tokenizers import processors

    around = [*begin, "$A", *after]
    names = dict.fromkeys(name for name in around if name != "$A")
    template = processors.TemplateProcessing(
        single=around,
        pair=[*around, "$B:1"],
        special_tokens=[(name, tokenizer.convert_tokens_to_ids(name)) for name in names],
    )
    # One that adds nothing does something else, such as trimming offsets, which goes on.
    framed = any(added_tokens(tokenizer))
    other = backend.post_processor
    backend.post_processor = template if framed or other is None else processors.Sequence([other, template])
    if added_tokens(tokenizer) != (begin, after):
        raise ReporterError(f"`{where}` has no effect on this tokenizer; remove `{key}`")


def _place(checkpoint: Checkpoint, folder: Path, offline: bool) -> Path:
    if checkpoint.tokenizer is not None:
        from reporter.models.resolve import tokenizer_of

        return tokenizer_of(checkpoint.tokenizer, offline)
    if checkpoint.gguf is not None:
        return folder
    return folder if checkpoint.trust_remote_code else tokenizer_folder([folder, checkpoint.path or folder])


def _class(folder: Path) -> Any:
    """Return the class to load a tokenizer with.

    Where the configuration says that ``tokenizer.json`` is all there is to it, it is taken at its word. For
    some families ``AutoTokenizer`` would build a tokenizer of its own over that vocabulary, which splits
    texts differently.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    declared = (read_json(folder / TOKENIZER_CONFIG) or {}).get("tokenizer_class")
    generic = declared in ("PreTrainedTokenizerFast", "TokenizersBackend")
    return PreTrainedTokenizerFast if generic and (folder / _OF_RUST).is_file() else AutoTokenizer
