"""Conversations: kept as JSON, and written out by a model's own chat template when they are tokenised.

What the template adds (headers of turns, closing tokens, a system prompt of its own) is no word of the conversation. Of
a conversation all turns count, or those of one role, with the others as context: the model reads the whole.
"""

import datetime
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reporter.core.errors import ReporterError, failures, first_line, hint, is_out_of_memory, one_line
from reporter.core.imports import changed

NO_TEMPLATE = (
    "its tokenizer has no chat template, which corpora with `chat: true` need. Save the template of the tuned model as "
    "chat_template.jinja next to the tokenizer, or remove this model"
)
FORM = '[{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]'


@dataclass(frozen=True)
class Chat:
    """How conversations are read.

    Args:
        role: whose turns count; None for all of them.
        date: the day that a template writes as today's; None where no template may ask for it.
    """

    role: str | None = None
    date: datetime.date | None = None

    @property
    def inputs(self) -> str | list[str]:
        """What of it decides about the tokens, as JSON."""
        return self.role or "all" if self.date is None else [self.role or "all", self.date.isoformat()]


class _AsksForDate(Exception):
    """A template asked for the date, which changes by itself."""


def written(messages: object, where: str) -> str | None:
    """Return a conversation as one line of JSON, the text under which a corpus keeps it; None for one without turns.

    Raises:
        ReporterError: if it is something else.
    """
    if messages is None:
        return None
    turns = []
    for message in messages if isinstance(messages, list) else [None]:
        role, content = (message.get(key) if isinstance(message, dict) else None for key in ("role", "content"))
        if not isinstance(role, str) or not isinstance(content, str):
            raise ReporterError(f"{where}: expected a conversation such as {FORM}, got {json.dumps(messages)[:60]}")
        turns.append({"role": role, "content": content})
    return json.dumps(turns, ensure_ascii=False, separators=(",", ":")) if turns else None


def require_role(texts: Iterable[str], role: str) -> None:
    """Check that some turn has a role; no further conversation is read than the first that has it.

    Raises:
        ReporterError: if none has it; the message names the roles that there are.
    """
    roles: set[str] = set()
    for text in texts:
        roles.update(turn["role"] for turn in json.loads(text))
        if role in roles:
            return
    raise ReporterError(no_role(role, roles))


def no_role(role: str, roles: Iterable[str]) -> str:
    """Return the message that no turn of a chat has a role, with the roles that it has."""
    return f"no turn has the role '{one_line(role)}'{hint(role, sorted(roles), 'roles')}"


def tokenised(
    text: str, number: int, tokenizer: Any, never: NDArray[np.int64], chat: Chat
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the token ids of a conversation, whether the template added each, and whether it does not count.

    Raises:
        ReporterError: if there is no template, it refuses the conversation, or changes what a turn says.
    """
    turns = json.loads(text)
    if not getattr(tokenizer, "chat_template", None):
        raise ReporterError(NO_TEMPLATE)
    if _draws_at_random(str(tokenizer.chat_template)):
        raise ReporterError("its chat template draws at random, so that no run could be repeated; use another template")
    try:
        with on_day(chat.date):
            whole = _write(tokenizer, turns)
            marked = _write(tokenizer, [turn | {"content": _mark(place)} for place, turn in enumerate(turns)])
        encoding = tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    except _AsksForDate:
        raise ReporterError(
            "its chat template writes today's date, so that numbers would change from day to day; fix the date: add "
            f"`date: {datetime.date.today().isoformat()}` to the corpus"
        ) from None
    except failures() as error:  # of the template's own words, or of a tokenizer without offsets
        if is_out_of_memory(error):
            raise
        raise ReporterError(
            f"conversation {number}: the chat template of the model rejects it ({first_line(error)}); correct the "
            "conversation"
        ) from error
    ids, ends = np.asarray(encoding["input_ids"], dtype=np.int64), np.asarray(encoding["offset_mapping"]).reshape(-1, 2)
    special, context = np.ones(len(ids), dtype=bool), np.full(len(ids), chat.role is not None)
    for begin, end, role in _places(whole, turns, _headers(marked, turns, number), number):
        inside = (ends[:, 1] > begin) & (ends[:, 0] < end) & (ends[:, 1] > ends[:, 0])
        special[inside] = False
        context[inside] = chat.role not in (None, role)
    return ids, special | np.isin(ids, never), context


def _write(tokenizer: Any, turns: Sequence[dict[str, str]]) -> str:
    """Return a conversation as a template writes it; one for images and texts may leave out what is no part."""
    whole = str(tokenizer.apply_chat_template(list(turns), tokenize=False))
    contents = [turn["content"].strip() for turn in turns if turn["content"].strip()]
    if not contents or any(content in whole for content in contents):
        return whole
    parts = [turn | {"content": [{"type": "text", "text": turn["content"]}]} for turn in turns]
    of_parts = str(tokenizer.apply_chat_template(parts, tokenize=False))
    return whole if str(parts[0]["content"])[:8] in of_parts else of_parts  # the list itself, written out


@contextmanager
def on_day(day: datetime.date | None) -> Iterator[None]:
    """Let chat templates take a day for today inside the block; without one, a template that asks for it fails."""
    from transformers.utils import chat_template_utils

    class Clock:
        @staticmethod
        def now() -> datetime.datetime:
            if day is None:
                raise _AsksForDate
            return datetime.datetime.combine(day, datetime.time())

    with changed(chat_template_utils, datetime=Clock):
        yield


@lru_cache
def _draws_at_random(template: str) -> bool:
    """Whether a template uses what Jinja has for chance: the filter ``random`` and ``lipsum``."""
    if "random" not in template and "lipsum" not in template:
        return False
    from jinja2 import Environment, TemplateError, nodes

    try:
        parsed = Environment(extensions=["jinja2.ext.loopcontrols"]).parse(template)
    except TemplateError:  # transformers says what is wrong, or knows this extension
        return False
    filters, names = parsed.find_all(nodes.Filter), parsed.find_all(nodes.Name)
    return any(node.name == "random" for node in filters) or any(node.name == "lipsum" for node in names)


def _mark(turn: int) -> str:
    return f"\ue000{turn}\ue001"  # of private use: no text has them


def _headers(marked: str, turns: Sequence[dict[str, str]], number: int) -> list[str]:
    """Return what a template writes before each turn; empty where it does not write turns as they are.

    Args:
        marked: what it writes if the words of each turn are its mark.
        turns: the turns.
        number: of the conversation, in messages.
    """
    places = [marked.find(_mark(turn)) for turn in range(len(turns))]
    if min(places) < 0:
        return [""] * len(turns)
    for turn, place in enumerate(places):
        if overtaking := [later for later, other in enumerate(places) if later > turn and other < place]:
            raise ReporterError(
                f"conversation {number}: the chat template moves turn {turn + 1} ({turns[turn]['role']}) behind turn "
                f"{overtaking[-1] + 1}. Move its words there in the conversation, or use another template"
            )
    ends = [0, *(place + len(_mark(turn)) for turn, place in enumerate(places))]
    return [marked[end:place] for end, place in zip(ends, places, strict=False)]


def _places(
    whole: str, turns: Sequence[dict[str, str]], headers: Sequence[str], number: int
) -> list[tuple[int, int, str]]:
    """Return where each turn's own words stand in what the template wrote, and whose they are.

    A turn that says "user" is looked for behind the header that says so, too.
    """
    spans, after = [], 0
    for turn, (message, header) in enumerate(zip(turns, headers, strict=True), 1):
        content = message["content"].strip()
        start = whole.find(header, after)
        begin = whole.find(content, start + len(header) if start >= 0 else after)
        if begin < 0:
            raise ReporterError(
                f"conversation {number}: the chat template omits or changes turn {turn} ({content[:40]!r}). "
                "Remove this conversation, or use another template"
            )
        after = begin + len(content)
        if content:
            spans.append((begin, after, message["role"]))
    return spans
