"""Conversations: kept as JSON, and written out by a model's own chat template when they are tokenised.

What the template adds (headers of turns, closing tokens, a system prompt of its own) is no word of the conversation. Of
a conversation all turns count, or those of one role, with the others as context: the model reads the whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reporter.errors import ReporterError, hint, one_line

NO_TEMPLATE = (
    "its tokenizer has no chat template, and its corpus is a chat; save the template of the tuned model beside the "
    "tokenizer (chat_template.jinja), or leave this model out"
)
FORM = '[{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]'


@dataclass(frozen=True)
class Chat:
    """Whose turns count.

    Args:
        role: the role; None for all of them.
    """

    role: str | None = None


@dataclass(frozen=True, eq=False)
class Conversation:
    """A conversation as a model reads it.

    Args:
        ids: token ids, shape (tokens,).
        special: True for what the template added, shape (tokens,).
        context: True for what does not count, shape (tokens,).
    """

    ids: NDArray[np.int64]
    special: NDArray[np.bool_]
    context: NDArray[np.bool_]


def written(messages: object, where: str) -> str | None:
    """Return a conversation as one line of JSON, the text under which a corpus keeps it; None for one without turns.

    Args:
        messages: a list of mappings with ``role`` and ``content``.
        where: the line of the file, for errors.

    Raises:
        ReporterError: if it is something else.
    """
    if messages is None:
        return None
    turns = []
    for message in messages if isinstance(messages, list) else [None]:
        role, content = (message.get(key) if isinstance(message, dict) else None for key in ("role", "content"))
        if not isinstance(role, str) or not isinstance(content, str):
            raise ReporterError(f"{where}: a conversation is a list such as {FORM}, got {json.dumps(messages)[:60]}")
        turns.append({"role": role, "content": content})
    return json.dumps(turns, ensure_ascii=False, separators=(",", ":")) if turns else None


def require_role(texts: Iterable[str], role: str) -> None:
    """Check that some turn has a role; no further conversation is read than the first that has it.

    Args:
        texts: conversations, each as :func:`written`.
        role: whose turns count.

    Raises:
        ReporterError: if none has it; the message names the roles that there are.
    """
    known: set[str] = set()
    for text in texts:
        known.update(turn["role"] for turn in json.loads(text))
        if role in known:
            return
    raise ReporterError(f"no turn has the role '{one_line(role)}'{hint(role, sorted(known), 'there are')}")


def tokenised(text: str, number: int, tokenizer: Any, never: NDArray[np.int64], chat: Chat) -> Conversation:
    """Return the tokens of a conversation.

    Args:
        text: the conversation, as :func:`written`.
        number: its place in the corpus, for errors.
        tokenizer: a fast transformers tokenizer with a chat template.
        never: ids that are no word wherever they stand.
        chat: whose turns count.

    Raises:
        ReporterError: if there is no template, it refuses the conversation, or changes what a turn says.
    """
    turns = json.loads(text)
    if not getattr(tokenizer, "chat_template", None):
        raise ReporterError(NO_TEMPLATE)
    try:
        whole = tokenizer.apply_chat_template(turns, tokenize=False)
        found = tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    except Exception as error:  # of the template's own words, or of a tokenizer without offsets
        raise ReporterError(f"conversation {number}: its chat template refuses it ({error})") from error
    ids, ends = np.asarray(found["input_ids"], dtype=np.int64), np.asarray(found["offset_mapping"]).reshape(-1, 2)
    special, context = np.ones(len(ids), dtype=bool), np.full(len(ids), chat.role is not None)
    for begin, end, role in _places(whole, turns, number):
        inside = (ends[:, 1] > begin) & (ends[:, 0] < end) & (ends[:, 1] > ends[:, 0])
        special[inside] = False
        context[inside] = chat.role not in (None, role)
    return Conversation(ids, special | np.isin(ids, never), context)


def _places(whole: str, turns: Sequence[dict[str, str]], number: int) -> list[tuple[int, int, str]]:
    """Return where each turn's own words stand in what the template wrote, and whose they are."""
    found, after = [], 0
    for turn, message in enumerate(turns, 1):
        content = message["content"].strip()
        begin = whole.find(content, after)
        if begin < 0:
            raise ReporterError(
                f"conversation {number}: the chat template leaves out or changes what turn {turn} says "
                f"({content[:40]!r})"
            )
        after = begin + len(content)
        if content:
            found.append((begin, after, message["role"]))
    return found
