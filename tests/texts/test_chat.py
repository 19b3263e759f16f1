"""Conversations: what of them counts, by a small tokenizer with a chat template of its own."""

import json
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from oracles.fake_model import FakeTexts

from reporter.core.errors import ReporterError
from reporter.texts.chat import Chat
from reporter.texts.sources.stored import FileCorpus
from reporter.texts.tokens import Windows, tokenise_corpus

WORDS = ["<s>", "<end>", "[user]", "[assistant]", "[system]", "hi", "you", "ok", "fine", *"abcdefg"]


def talk(*turns):
    """Return a conversation in which the user begins."""
    return [{"role": ("user", "assistant")[i % 2], "content": turn} for i, turn in enumerate(turns)]


TALK = talk(" hi you ", "ok fine", "ok", "a b c d e f g")


@pytest.fixture(scope="module")
def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<end>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="<end>")
    made.chat_template = "<s>{% for m in messages %} [{{ m['role'] }}] {{ m['content'] | trim }} <end>{% endfor %}"
    return made


def words(text, keep):
    return " ".join(WORDS[i] for i in text.ids[keep])


def read(tokenizer, chat, talks=(TALK,), max_tokens=99, windows=None):
    texts = FakeTexts(json.dumps(talk) for talk in talks)
    corpus = tokenise_corpus(texts, tokenizer, max_tokens, None, windows, chat)
    return [text for shard in corpus.shards for text in corpus.of(shard)]


def test_what_the_template_adds_is_no_word_and_where_one_role_counts_the_others_are_context(tokenizer):
    ((text,), (user,), (assistant,)) = (read(tokenizer, Chat(*role)) for role in ((), ("user",), ("assistant",)))
    assert words(text, ~text.special) == "hi you ok fine ok a b c d e f g" and text.counted.all()
    assert words(text, text.special) == "<s> [user] <end> [assistant] <end> [user] <end> [assistant] <end>"
    assert words(user, user.counted) == "hi you ok"
    assert words(assistant, assistant.counted) == "ok fine a b c d e f g"
    assert user.ids.tolist() == assistant.ids.tolist() == text.ids.tolist()
    assert read(tokenizer, Chat("system")) == []


def test_a_template_for_images_and_texts_that_reads_parts_alone_writes_the_same_words(tokenizer):
    plain = tokenizer.chat_template
    part = "{% for p in m['content'] | selectattr('type', 'equalto', 'text') %} {{ p['text'] | trim }}{% endfor %}"
    try:
        (expected,) = read(tokenizer, Chat("user"))
        tokenizer.chat_template = plain.replace(" {{ m['content'] | trim }}", part)
        (text,) = read(tokenizer, Chat("user"))
    finally:
        tokenizer.chat_template = plain
    assert text.ids.tolist() == expected.ids.tolist() and text.counted.tolist() == expected.counted.tolist()


def test_a_long_conversation_is_cut_or_read_in_windows(tokenizer):
    (cut,) = read(tokenizer, Chat("assistant"), max_tokens=8)
    assert cut.cut and len(cut) == 8 and words(cut, cut.counted) == "ok fine"
    windows = read(tokenizer, Chat("assistant"), windows=Windows(9, 3))
    assert " ".join(words(text, text.counted) for text in windows) == "ok fine a b c d e f g"
    assert max(map(len, windows)) <= 9


def test_what_cannot_be_rendered_says_so(tokenizer, monkeypatch):
    for template, says in (
        (None, "has no chat template"),
        ("{{ raise_exception('no system') }}", r"conversation 1: .* rejects it \(no system\)"),
        ("<s> nothing", "conversation 1: the chat template omits or changes turn 1"),
    ):
        monkeypatch.setattr(tokenizer, "chat_template", template)
        with pytest.raises(ReporterError, match=says):
            read(tokenizer, Chat())


def test_a_turn_that_the_template_moves_is_said_to_be_moved(tokenizer, monkeypatch):
    """Templates of Mistral write the system prompt into the last turn."""
    late = "{% for m in messages[1:] %}{{ messages[0]['content'] if loop.last }} {{ m['content'] }} {% endfor %}"
    monkeypatch.setattr(tokenizer, "chat_template", late)
    system = {"role": "system", "content": "fine"}
    with pytest.raises(ReporterError, match=r"conversation 2: .* moves turn 1 \(system\) behind turn 3\. Move"):
        read(tokenizer, Chat(), [[system, *talk("a")], [system, *talk("a", "b", "c")]])


def test_the_date_of_a_template_is_an_input(tokenizer, monkeypatch):
    """What changes by itself is fixed by the study, or refused with the line to add."""
    days = "<s> {{ 'abcdefg'[strftime_now('%d') | int % 7] }} "
    monkeypatch.setattr(tokenizer, "chat_template", days + tokenizer.chat_template.removeprefix("<s>"))
    with pytest.raises(ReporterError, match=r"writes today's date, .*: add `date: \d{4}-\d\d-\d\d` to the corpus"):
        read(tokenizer, Chat())
    for day, word in ((1, "b"), (2, "c"), (9, "c")):
        (text,) = read(tokenizer, Chat(date=date(2026, 1, day)))
        assert words(text, text.special).split()[1] == word and words(text, ~text.special).startswith("hi you")
    assert Chat("user").inputs != Chat("user", date(2026, 1, 1)).inputs != Chat("user", date(2026, 1, 2)).inputs
    for chance in ("{{ ['a', 'b'] | random }}", "{{ lipsum(1) }}"):
        monkeypatch.setattr(tokenizer, "chat_template", chance)
        with pytest.raises(ReporterError, match="draws at random"):
            read(tokenizer, Chat())


def test_json_lines_of_conversations_and_a_role_that_nobody_has(build, refused, tmp_path):
    path, spec = tmp_path / "talks.jsonl", FileCorpus(file=Path("talks.jsonl"), chat=True)
    path.write_text("".join(json.dumps({"messages": talk}) + "\n" for talk in (TALK[:1], TALK, [])))
    texts = build(spec)
    assert [json.loads(text) for text in texts] == [TALK[:1], TALK] and texts.dropped == 1
    assert np.array_equal(texts.slice(0, 9), list(texts))
    assert len(build(spec.model_copy(update={"role": "assistant"}))) == 2
    for role, says in (("asistant", r"did you mean 'assistant'\?"), ("system", "roles: assistant, user")):
        refused(f"no turn has the role '{role}'; {says}", spec.model_copy(update={"role": role}))
    path.write_text('{"messages": [{"role": "user"}]}\n')
    refused(r"talks.jsonl:1: expected a conversation such as", spec)
    path.rename(tmp_path / "talks.txt")
    refused(r"a chat must be a \.jsonl file .* remove `chat`", FileCorpus(file=Path("talks.txt"), chat=True))


def test_a_turn_that_says_what_a_header_says_is_found_behind_the_header(tokenizer):
    headers = talk("[user]", "[user]", "", "a", "a")
    (text,), (theirs,) = read(tokenizer, Chat(), [headers]), read(tokenizer, Chat("user"), [headers])
    assert words(text, ~text.special) == "[user] [user] a a"
    assert words(theirs, theirs.counted) == "[user] a"
    assert np.flatnonzero(~text.special).tolist() == [2, 5, 10, 13]  # not the headers before them


LOOP = "{% for i in range(99999) %}"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (LOOP * 3 + "{% endfor %}" * 3, r"tokenising conversations 1 to 1 of corpus .* did not finish within 1 s"),
        (
            "{{ 'x' * 20000000000 }}",
            r"tokenising conversations 1 to 1 .* needs more than 1\.0 GiB of memory; check the",
        ),
        (
            "{{ " + "(" * 3000 + ")" * 3000 + " }}",
            r"conversation 1: the chat template of the model rejects it \(maximum",
        ),
    ],
)
def test_a_hostile_template_is_stopped(tokenizer, monkeypatch, template, message):
    monkeypatch.setattr("reporter.texts.tokens.SECONDS", 1.0)
    monkeypatch.setattr("reporter.texts.tokens.MEMORY", 2**30)
    monkeypatch.setattr(tokenizer, "chat_template", template)
    with pytest.raises(ReporterError, match=message):
        tokenise_corpus(FakeTexts([json.dumps(TALK)]), tokenizer, 99, chat=Chat())
