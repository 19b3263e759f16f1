"""Broken studies: each mistake is one line at its place that says what to do.

In the texts ``»`` stands where a message must point to; it is taken out before the text is read. What is expected is
the key, a colon, and words of the message; ``…`` stands for any words.
"""

import pytest
from study.conftest import assert_words

MODEL = "study: s\nmodels:\n  m: gpt2\n%s\n"
CORPUS = "study: s\nmodels: {m: gpt2}\ncorpora:\n  c: {%s}\n"
METRICS = CORPUS % "texts: [a]" + "%s\n"
OF_TWO = "relation: {x: convergence.a, y: convergence.b, is: positive, %s}"
FIXED = METRICS % f"texts: fixed\nclaims: {{c: {{says: x, {OF_TWO}}}}}"
CLAIM = METRICS % "claims:\n  c: {says: x, value: {metric: convergence.rate, model: %s}"
RECIPE = "study: s\nmodels:\n  m:\n    recipe: {architecture: gpt2, train_on: c, %s}\ncorpora:\n  c: {texts: [a]}\n"
OF_M = "study: s\nmodels:\n  m: {recipe: {architecture: bert, steps: 1, train_on: %s\n"
TUNED = "study: s\nmodels:\n  m: {recipe: {architecture: gpt2, train_on: c, steps: 1}}\n  h: gpt2\n"
TUNED += "  t: {recipe: {%s}}\ncorpora:\n  c: {texts: [a]}\n"
CHAT = "study: s\nmodels:\n  m: %s\ncorpora: {c: {file: c.jsonl, chat: true}}\n"
ANALYSES = "study: s\nmodels: {a: {path: x}}\ncorpora: {c: {texts: [a b, c d]}, d: {texts: [e]}}\nmetrics: none\n%s"
CIRCLE, NO_D = "circular reference: ", "train_on: no corpus 'd'; corpora of this study: c"

# A frame, what the keys of its messages begin with, and pairs of a text and what is said of it.
BROKEN: dict[tuple[str, str], list[tuple[str, ...]]] = {
    ("%s", ""): [
        ("»", ": the file is empty … `reporter init NAME`"),
        ("»- study: s\n", ": mapping … got a list"),
        ("»study: s\n", "models: missing key; add `models: …`"),
        ("study: »nul\nmodels: {m: gpt2}\n", "study: 'nul' is reserved … Windows"),
        ("study: s\nmodels: {»con: gpt2}\n", "models.con: invalid name: no file on Windows can have it"),
        ("study: s\nmodels: {»Aux.v2: gpt2}\n", "models.'Aux.v2': invalid name: no file on Windows"),
        ("study: s\nmodels: {»m.: gpt2}\n", "models.'m.': invalid name: no file on Windows"),
        ("study: s\nmodels: {Dreams: gpt2, »dreams: bert}\n", "models.dreams: differs from 'Dreams' in case"),
        (
            "study: s\nmodels: {m: gpt2}\ncorpora: {C: {texts: [a]}, »c: {texts: [b]}}\n",
            "corpora.c: differs from 'C' in case alone; rename",
        ),
        (
            "study: s\nmodels: {m: gpt2}\ncorpora: {c: {texts: [a]}}\nskip: {P: {corpus: c}, »p: {corpus: c}}\n",
            "skip.p: differs from 'P' in case alone; rename",
        ),
        ("study: s\nmodels: »[a, b]\n", "models: expected a mapping, got a list; write `models: {bert: google-bert"),
        ("study: s\nmodels: {m: gpt2}\n»corpus: {c: {texts: [a]}}\n", "corpus: unknown key; did you mean 'corpora'?"),
        ("study: s\n»modles: {m: gpt2}\n", "modles: unknown key; did you mean 'models'?"),
        ("study: s\nmodels: {»1: gpt2}\n", "models: a key must be text"),  # and `models` is not called empty as well
        ("study: »My Study\nmodels: {m: gpt2}\n", "study: id such as 'my-study', of at most 64 … got text 'My Study'"),
        ("study: s\n»\tmodels: x\n", ": tab … use spaces"),
        ("study: s»: t\n", ": a ':' is not allowed here; check the indentation"),
        ("study: »'s\nmodels: {}\n", ": is never closed; close it"),
        ("study: s\nmodels:\n  »a:\n    dtype: auto\n", "models.a: add 'hub', 'path', 'recipe' or 'states'"),
        (
            "study: s\nmodels:\n  a: {recipe: {from: »b, train_on: c, steps: 1}}\n"
            "  b: {recipe: {from: »a, train_on: c, steps: 1}}\ncorpora: {c: {texts: [a]}}\n",
            f"models.a.recipe.from: {CIRCLE}model 'a' continues model 'b', which continues model 'a'",
            f"models.b.recipe.from: {CIRCLE}model 'b' continues model 'a', which continues model 'b'",
        ),
    ],
    (MODEL, ""): [
        ("»xyzzy: {}", "xyzzy: unknown key; expected one of: study, extends, title, … vocabulary"),
        ('»a\\nb: 1\n»"c\\nd\\e[1m[red]": 2', "'a\\nb': unknown key", "'c\\nd\\x1b[1m[red]': unknown key"),
        ("title:\n  t\n»title: u", "title: duplicate key; it is already on line 4"),
        ("? »{a: b}\n: x", ": a key must be text, got a mapping"),
        ("title: &x t\nrun: »*x", ": aliases (*x) are not supported; repeat the value here"),
        ("title: »@x", ": cannot begin with this character; put it in quotes"),
        ('title: "\\»q"', ": unknown escape … write '\\\\' for a backslash"),
        ("title: a»\u0007b", ": character U+0007 is not allowed; remove it"),
        ('title: »"\\ud800"', "title: half of a character (a lone surrogate)"),
        ("title: »!!python/object:os.system x", "title: tags such as !python/object:os.system … remove"),
        ("run: {seed: »!!int x}", "run.seed: text 'x' does not fit the tag !!int"),
        ("run: {seed: »4294967296}", "run.seed: must be at most 4294967295, got 4294967296"),
        ("run: {device: »gpu}", "run.device: 'auto', 'cpu', 'mps', 'cuda' or 'cuda:0', got text 'gpu'"),
        (" »n: gpt2", ": the indentation does not match"),
        ("»---\nstudy: t", ": a second document begins here; remove the line `---`"),
        ("»metrics: [anisotropy]", "metrics: need texts; add a corpus under `corpora`"),
        (
            "views: [text tokens, »sinks]",
            "views[1]: 'text tokens', 'with special tokens' or 'without sinks', got … did you mean 'without sinks'?",
        ),
        ("views: [»no-sinks]", "views[0]: 'no-sinks' is called 'without sinks' now; write 'without sinks'"),
        (
            "views: [with special tokens, »with special tokens]",
            "views[1]: 'with special tokens' is listed twice; remove one",
        ),
    ],
    ("study: s\nmodels: {a: {hub: gpt2, %s}}\n", "models."): [
        ("»path: x", "a.path: 'hub' and 'path' cannot be combined; remove one of them"),
        ("dtype: »float23", "a.dtype: 'auto', 'float32', 'bfloat16' or 'float16', got text … did you mean 'float32'?"),
        ("trust_remote_code: »yes", "a.trust_remote_code: expected true or false, got text 'yes'; write `true`"),
        ("checkpoints: [»5]", "a.checkpoints[0]: a name in quotes or a mapping such as {revision: step512, step: 512}"),
        ("checkpoints: [{revision: y, »folder: x}]", "a.checkpoints[0].folder: unknown key; expected one of: revision"),
        ("»revision: main, checkpoints: [x]", "a.revision: remove `revision`; … cannot be combined with `checkpoints`"),
        ("»max_memory: {cpu: 8GiB}", "a.max_memory: needs `device_map: auto`; add it"),
        ("device_map: auto, »adapter: x", "a.adapter: cannot be merged … Merge it with PEFT"),
        ("device_map: auto, max_memory: {»gpu: 8GiB}", "a.max_memory.gpu: 'cpu' or the number … '0', got text"),
    ],
    ("study: s\nmodels: {%s}\n", "models."): [
        ("a: {path: x, twin: »a}", "a.twin: a model cannot be its own twin; name another"),
        ("a: {path: x, »revision: main}", "a.revision: this key needs 'hub', but … 'path'; remove the key"),
        ("a: »5", "a: {hub: owner/name}, got the number 5"),
        ("a: »./x", "a: './x' is not a hub id; to name a folder, write {path: ./x}"),
        ("a: {path: p, checkpoints: [»../x]}", "a.checkpoints[0]: must be a sub-folder of `path`, got text '../x'"),
        ("a: {states: »big.safetensors}", "a.states: one file for each corpus … {wiki: … got text 'big.safetensors'"),
        ("»a b: gpt2", "'a b': at most 64 letters, digits"),
        ("m: {»<<: {hub: gpt2}, hub: b}", "m: merge keys (<<) are not supported"),
    ],
    ("study: s\nmodels:\n  m:\n    »recipe: {%s}\ncorpora: {c: {texts: [a]}}", "models.m.recipe."): [
        ("architecture: bert, steps: 1", "train_on: missing key; add `train_on: …`")
    ],
    (RECIPE, "models.m.recipe."): [
        ('steps: »"600"', "steps: expected a whole number, got text '600'; remove the quotes"),
        ("steps: 5, width: 16, initial_scale: »5", "initial_scale: must be at most √width (4), got 5"),
        ("steps: 5, width: »10", "width: width 10 must be a multiple of heads (4)"),
        ("steps: 5, checkpoints: [0, »6]", "checkpoints[1]: must be between 0 and `steps` (5), got 6"),
        ("steps: 5, checkpoints: [1, »1]", "checkpoints[1]: step 1 is listed twice"),
        ("steps: 5, learning_rate: ».inf", "learning_rate: must be a finite number, got inf"),
        ("steps: 5, mask_share: »1", "mask_share: must be less than 1, got 1"),
    ],
    (TUNED, "models.t.recipe."): [
        ("from: »n, train_on: c, steps: 1", "from: no model 'n'; recipe models of this study: m"),
        ("from: »h, train_on: c, steps: 1", "from: model 'h' has no recipe; name a model that has one"),
        ("from: »t, train_on: c, steps: 1", "from: a model cannot continue itself; name another"),
        ("from: m, train_on: c, steps: 1, »layers: 3", "layers: is fixed by the recipe that `from` names; remove it"),
        ("architecture: »gtp2, train_on: »d, steps: 1", "architecture: expected … got text 'gtp2'; did you mean", NO_D),
        ("architecture: llama, heads: 4, width: »20, steps: 1, train_on: c", "width: even width for each head, got 20"),
    ],
    ("study: s\nmodels: {m: gpt2}\ncorpora:\n  %s\n", "corpora."): [
        ("»c: {limit: 3}", "c: missing key; add 'dataset', 'file', 'generate', 'sample' or 'texts'"),
        ("c: »notes.txt", "c: {file: texts.txt}, got text 'notes.txt'"),
    ],
    (OF_M, "corpora."): [
        (
            "a}}\ncorpora:\n  a: {texts: [a], size_of: »b}\n  b: {generate: random-words, vocabulary: »m}",
            f"a.size_of: {CIRCLE}corpus 'a' takes … corpus 'b', … draws … model 'm', … trained on corpus 'a'",
            f"b.vocabulary: {CIRCLE}corpus 'b' draws … model 'm', … trained on corpus 'a', … from corpus 'b'",
        ),
        (  # 'c' leads into the circle of the others, and is not part of it
            "b}}\n  n: {recipe: {architecture: bert, steps: 1, train_on: a}}\ncorpora:\n"
            "  a: {generate: random-words, vocabulary: »m}\n  b: {generate: random-words, vocabulary: »n}\n"
            "  c: {generate: random-words, vocabulary: n}",
            f"a.vocabulary: {CIRCLE}",
            f"b.vocabulary: {CIRCLE}",
        ),
    ],
    (CORPUS, "corpora.c."): [
        ("texts: »[]", "texts: must not be empty"),
        ("file: a.csv, only: »[joy]", "only: needs labels; add `label: COLUMN`"),
        ("file: a.csv, label: mood, only: [joy], by: [joy, »fear]", "by[1]: 'fear' is not in `only`; add it there"),
        ("file: a.csv, label: m, by: [a], size_of: »c.a", f"size_of: {CIRCLE}corpus 'c.a' … from corpus 'c.a'"),
        ("file: a.jsonl, chat: true, role: user, by: »[user]", "by: name all roles here, and remove `role`"),
        ("file: a.csv, label: mood, by: [joy, »joy]", "by[1]: 'joy' is listed twice"),
        ("file: a.csv, label: m, by: [a b, »a-b]", "by[1]: adds a corpus named 'c.a-b', which is taken; rename"),
        ("file: a.csv, label: m, by: [Joy, »joy]", "by[1]: adds a corpus named 'c.joy', which differs from 'c.Joy'"),
        (f"file: a.csv, label: m, by: [joy, »{'x' * 63}]", "by[1]: named 'c.' and … more than 64 characters; shorten"),
        ("texts: [a], stride: »4", "stride: needs `window`; add `window: 512`"),
        ("texts: [a], window: 8, stride: »9", "stride: must be at most `window` (8) … got 9"),
        ("texts: [a], window: 8, max_tokens: »9", "max_tokens: cannot be combined with `window` … remove one of them"),
        ("texts: [a], »words: [1, 2]", "words: this key needs 'generate', but … 'texts'; remove the key"),
        ("texts: [a], min_words: 5, max_words: »4", "max_words: must be at least `min_words` (5), got 4"),
        ("generate: grammar, words: »[9, 3]", "words: the fewest words (9) must not exceed the most (3)"),
        ("generate: grammar, »vocabulary: m", "vocabulary: needs `generate: random-words`"),
        ("generate: grammar, words: [2, 5], min_words: »6", "min_words: must be at most … of `words` (5), got 6"),
        ("sample: english, label: register, only: [»newss]", "only[0]: no register 'newss'; did you mean 'news'?"),
        ("sample: english, »texts: 12", "texts: expected the texts themselves, got a number; write `limit: 12`"),
    ],
    (METRICS, ""): [
        ("metrics: »anisotropy", "metrics: 'all', 'none' or a list … got text 'anisotropy'"),
        ("metrics: »[]", "metrics: must not be empty; remove `metrics` to measure all"),
        (
            "metrics:\n- intrinsic_dimension:\n    sample: »5\n    share: »2\n    scales: [1, »x]",
            "metrics[0].intrinsic_dimension.sample: must be at least 32, got 5",
            "metrics[0].intrinsic_dimension.share: must be at most 1, got 2",
            "metrics[0].intrinsic_dimension.scales[1]: expected a whole number, got text 'x'",
        ),
        ("metrics: [{convergence: »5}]", "metrics[0].convergence: mapping of options … got the number 5"),
        ("metrics: [»{intrinsic_dimension: {}, sample: 5}]", "metrics[0]: {name: {option: value}}, got … with 2 keys"),
    ],
    (FIXED, "claims.c.relation."): [("over: »layers", "over: cannot be combined with `texts: fixed` … remove `texts`")],
    (CLAIM, "claims.c."): [
        ("encoders}, below: {metric: convergence.rate, model: »decoders}", "below.model: 'decoders' … name 'encoders'"),
        ("m, against: base, »step: 3}, above: 0", "value.step: cannot be combined with `against`"),
        ("m, against: »base}, above: 0", "value.against: 'm' has no base … add `base: NAME`"),
        ("»with-base}, above: 0", "value.model: 'with-base' needs a model with a base; add `base: NAME`"),
    ],
    (CHAT, ""): [
        ("{recipe: {architecture: gpt2, train_on: »c, steps: 0}}", "models.m.recipe.train_on: corpus 'c' is a chat"),
        ("{states: {»d: x.safetensors}}", "models.m.states.d: no corpus 'd'"),
    ],
    (ANALYSES, ""): [
        ("journeys: {»m: {top: 3}}", "journeys.m: has no text; add 'text', or 'texts'"),
        ("journeys: {m: {text: a, »texts: [b]}}", "journeys.m.texts: 'text' and 'texts' exclude each other"),
        ("groups: {g: »'{a|b'}", "groups.g: braces do not match; write {a|b}"),
        ("groups: {g: »[a]}", "groups.g: a group needs 2 to 5,000 texts, got 1"),
        ("pairs: {p: {x: [[a, b], »[c]]}}", "pairs.p.x[1]: two texts, [first, second], got a list of 1"),
        ("pairs: {p: {x: »[[a, b]]}}", "pairs.p.x: a concept needs at least 2 pairs, got 1"),
        ("clouds: {k: »[c]}", "clouds.k: two or more corpora, got a list"),
        ("probes: {q: {corpus: »c}}", "probes.q.corpus: corpus 'c' has no labels; add `label: COLUMN`"),
        ("probes: {q: {words: »{noun: [a, b]}}}", "probes.q.words: needs two or more classes"),
        ("probes: {»q: {folds: 3}}", "probes.q: 'corpus' or 'words'"),
    ],
}
CASES = [(frame.replace("%s", text), below, says) for (frame, below), of in BROKEN.items() for text, *says in of]


def take_out_marks(text):
    """Return the text without ``»`` and each mark's ``line:column``."""
    before = ["".join(text.split("»")[: i + 1]) for i in range(text.count("»"))]
    return text.replace("»", ""), [f"{part.count(chr(10)) + 1}:{len(part) - part.rfind(chr(10))}" for part in before]


@pytest.mark.parametrize(("marked", "below", "expected"), CASES, ids=range(len(CASES)))
def test_every_mistake_is_one_line_at_its_place(complain, marked, below, expected):
    text, places = take_out_marks(marked)
    lines = complain(text)
    assert len(lines) == len(places) == len(expected), lines
    for line, place, says in zip(lines, places, expected, strict=True):
        key, _, words = says.partition(": ")
        where = f"{below}{key}".removesuffix("." if not key else "")
        start = f"study.yaml:{place}: " + (f"{where}: " if where else "")
        assert line.startswith(start)
        assert_words(line.removeprefix(start), words)


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(complain):
    lines = complain(
        "study: S\nmodels:\n  m: {hub: gpt2, dtyp: auto}\n"
        "  p: {recipe: {architecture: bert, steps: 1, train_on: nowhere}}\n  m: gpt2\n"
        "corpora:\n  c: {generate: random-words, vocabulary: nobody}\nmetrics: [anisotropi]\n"
    )
    keys = "study", "models.m.dtyp", "models.p.recipe.train_on", "models.m", "corpora.c.vocabulary", "metrics[0]"
    assert [line.split(": ")[1] for line in lines] == list(keys)
    assert [int(line.split(":")[1]) for line in lines] == [1, 3, 4, 5, 7, 8]


def test_what_is_no_study_at_all_has_its_place_too_and_a_long_value_is_cut(complain):
    texts = {
        "study: s\ntitle: é".encode() + b"\xff\n": "2:9: is not UTF-8 text (byte 0xff)",
        "study: " + "[" * 20_000: "1:107: lists and mappings are nested more than 100 deep",
        f"study: s\n? {'1' * 101}\n: x\n": "2:3: the number has more than 100 digits",
    }
    for text, expected in texts.items():
        assert any(line.startswith(f"study.yaml:{expected}") for line in complain(text))
    (line,) = complain(MODEL % f"run: {{device: {'x' * 5000}}}")
    assert len(line) < 200
