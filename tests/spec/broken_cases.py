"""Broken studies, the places of their mistakes marked by », and what is said of each; read by test_broken_studies."""

from __future__ import annotations

MODEL = "study: s\nmodels:\n  m: gpt2\n"
RECIPE = "study: s\nmodels:\n  m:\n    recipe: {architecture: gpt2, train_on: c, %s}\ncorpora:\n  c: {texts: [a]}\n"
CORPUS = "study: s\nmodels: {m: gpt2}\ncorpora:\n  c: {%s}\n"
METRICS = CORPUS % "texts: [a]"
UNKNOWN_AT_TOP = (
    "unknown key; known here: study, extends, title, question, plugins, models, corpora, texts, metrics, views, "
    "sinks, sites, baselines, pooling, claims, run, report, attention, clouds, groups, journeys, pairs, probes, skip, "
    "vocabulary"
)

CHAT = "study: s\nmodels:\n  m: %s\ncorpora: {c: {file: c.jsonl, chat: true}}\n"
IS_A_CHAT = "corpus 'c' is a chat, which metrics alone read; name one of plain texts"

BROKEN = [
    (
        "study: s\nmodels:\n  m: {hub: gpt2, »max_memory: {cpu: 8GiB}}\n",
        ["models.m.max_memory: 'max_memory' needs `device_map: auto`"],
    ),
    (
        "study: s\nmodels:\n  m: {hub: gpt2, device_map: auto, »adapter: x}\n",
        ["models.m.adapter: an adapter cannot be merged into a model that is split; merge it with PEFT, and save that"],
    ),
    (
        "study: s\nmodels:\n  m: {states: »big.safetensors}\n",
        [
            "models.m.states: expected a file for each corpus, such as {wiki: big-on-wiki.safetensors}, got "
            "text 'big.safetensors'"
        ],
    ),
    (CHAT % "{recipe: {architecture: gpt2, train_on: »c, steps: 0}}", [f"models.m.recipe.train_on: {IS_A_CHAT}"]),
    (
        METRICS + "claims:\n  c: {says: x, value: {metric: convergence.rate, model: encoders}, "
        "below: {metric: convergence.rate, model: »decoders}}\n",
        [
            "claims.c.below.model: 'decoders' stands for several models: as a bound it goes only where 'value' says "
            "the same; name 'encoders'"
        ],
    ),
    (
        METRICS
        + "claims:\n  c: {says: x, above: 0, value: {metric: convergence.rate, model: m, against: base, »step: 3}}\n",
        ["claims.c.value.step: does not go with 'against', which compares the last checkpoints"],
    ),
    (
        METRICS + "claims:\n  c: {says: x, above: 0, value: {metric: convergence.rate, model: m, against: »base}}\n",
        ["claims.c.value.against: 'm' has no base to be compared with; add `base: NAME` to the model"],
    ),
    (
        METRICS + "claims:\n  c: {says: x, above: 0, value: {metric: convergence.rate, model: »with-base}}\n",
        ["claims.c.value.model: 'with-base': no model of this study has a base; add `base: NAME` to one"],
    ),
    (
        METRICS
        + "texts: fixed\nclaims:\n  c: {says: x, relation: {x: convergence.similarity, y: convergence.gradient, "
        "is: positive, over: »layers}}\n",
        [
            "claims.c.relation.over: does not go with 'texts: fixed': that leaves out the error of sampling texts, and "
            "a correlation over layers has that of layers alone; leave 'texts' or this claim out"
        ],
    ),
    ("»", ["the file is empty; 'reporter init' writes a study to start from"]),
    ("»# nothing\n\n", ["the file is empty; 'reporter init' writes a study to start from"]),
    ("»---\n", ["the file is empty; 'reporter init' writes a study to start from"]),
    ("»- study: s\n", ["a study is a mapping that begins with 'study: <id>', got a list"]),
    ("# why\n»hello\n", ["a study is a mapping that begins with 'study: <id>', got text 'hello'"]),
    ("»»{}\n", ["models: missing key", "study: missing key"]),
    ("»study: s\n", ["models: missing key"]),
    ("# comment\n»models: {m: gpt2}\n", ["study: missing key"]),
    (MODEL + "»titel: x\n", ["titel: unknown key; did you mean 'title'?"]),
    (MODEL + "»Title: x\n", ["Title: unknown key; did you mean 'title'?"]),
    (MODEL + "»xyzzy: {}\n", [f"xyzzy: {UNKNOWN_AT_TOP}"]),
    (MODEL + "»vocabulry: [m]\n", ["vocabulry: unknown key; did you mean 'vocabulary'?"]),
    (
        "study: s\nmodels:\n  a: {hub: gpt2, »dtyp: auto}\n",
        ["models.a.dtyp: unknown key; did you mean 'dtype'?"],
    ),
    (
        "study: s\nmodels: {a: {path: x, base: »b}}\n",
        ["models.a.base: no model 'b'; models of this study: a"],
    ),
    (
        "study: s\nmodels: {a: {path: x, twin: »a}}\n",
        ["models.a.twin: a model is not its own twin"],
    ),
    ("study: s\nmodels: {a: {»pth: x}}\n", ["models.a.pth: unknown key; did you mean 'path'?"]),
    (
        "study: s\nmodels:\n  »a:\n    dtype: auto\n",
        ["models.a: needs one of the keys 'hub', 'path', 'recipe' or 'states'"],
    ),
    (
        "study: s\nmodels: {a: {hub: gpt2, »path: x}}\n",
        ["models.a.path: 'hub' and 'path' exclude each other; keep one of them"],
    ),
    (
        "study: s\nmodels: {a: {hub: gpt2, »layers: 3}}\n",
        [
            "models.a.layers: unknown key; known here: bos, base, twin, scores, dtype, trust_remote_code, "
            "allow_pickle, adapter, part, device_map, max_memory, offload_folder, hub, revision, tokenizer, "
            "checkpoints"
        ],
    ),
    (
        "study: s\nmodels: {a: {path: x, »revision: main}}\n",
        ["models.a.revision: unknown key beside 'path'; it goes with 'hub'"],
    ),
    (
        "study: s\nmodels:\n  a:\n    »»recipe: {steps: 1}\n",
        ["models.a.recipe.architecture: missing key", "models.a.recipe.train_on: missing key"],
    ),
    (
        "study: »My Study\nmodels: {m: gpt2}\n",
        [
            "study: expected an id of at most 64 lower-case letters, digits, '-' and '_', the first "
            "a letter or digit, got text 'My Study'"
        ],
    ),
    (
        "study: »cache\nmodels: {m: gpt2}\n",
        ["study: 'cache' is the name of a folder that every run writes; choose another id"],
    ),
    (MODEL + "title: »2024\n", ["title: expected text, got the number 2024; put it in quotes"]),
    ("study: s\n»models:\n", ["models: expected a mapping, got nothing"]),
    ("study: s\nmodels: »{}\n", ["models: must not be empty"]),
    ("study: s\nmodels: »[gpt2]\n", ["models: expected a mapping, got a list"]),
    (
        "study: s\nmodels: {a: »5}\n",
        ["models.a: expected a mapping such as {hub: owner/name}, got the number 5"],
    ),
    (
        "study: s\nmodels: {a: »./x}\n",
        ["models.a: text './x' is not a hub id; for a folder write {path: ./x}"],
    ),
    ("study: s\nmodels: {a: {path: »''}}\n", ["models.a.path: must not be empty"]),
    ("study: s\nmodels: {a: {path: »3}}\n", ["models.a.path: expected a path, as text, got the number 3"]),
    (
        "study: s\nmodels: {a: {hub: gpt2, dtype: »float23}}\n",
        [
            "models.a.dtype: expected 'auto', 'float32', 'bfloat16' or 'float16', got text "
            "'float23'; did you mean 'float32'?"
        ],
    ),
    (
        "study: s\nmodels: {a: {hub: gpt2, trust_remote_code: »yes}}\n",
        ["models.a.trust_remote_code: expected true or false, got text 'yes'"],
    ),
    (
        "study: s\nmodels: {»a b: gpt2}\n",
        ["models.'a b': a name has at most 64 letters, digits, '-', '_' and '.', and begins with a letter or digit"],
    ),
    (
        "study: s\nmodels: {a: {hub: gpt2, checkpoints: [step1, »step1]}}\n",
        ["models.a.checkpoints[1]: checkpoint 'step1' is listed twice"],
    ),
    (
        "study: s\nmodels: {a: {hub: gpt2, checkpoints: [»{»folder: x}]}}\n",
        [
            "models.a.checkpoints[0].revision: missing key",
            "models.a.checkpoints[0].folder: unknown key; known here: revision, step",
        ],
    ),
    (
        "study: s\nmodels: {a: {path: p, checkpoints: [»../x]}}\n",
        ["models.a.checkpoints[0]: must be a sub-folder of 'path', got text '../x'"],
    ),
    (
        "study: s\nmodels: {a: {hub: gpt2, »revision: main, checkpoints: [x]}}\n",
        ["models.a.revision: 'revision' and 'checkpoints' exclude each other; each checkpoint is a revision"],
    ),
    (
        "study: s\nmodels:\n  a: {recipe: {from: »b, train_on: c, steps: 1}}\n"
        "  b: {recipe: {from: »a, train_on: c, steps: 1}}\ncorpora: {c: {texts: [a]}}\n",
        [
            "models.a.recipe.from: goes in a circle: model 'a' continues model 'b', which continues model 'a'",
            "models.b.recipe.from: goes in a circle: model 'b' continues model 'a', which continues model 'b'",
        ],
    ),
    (
        "study: s\nmodels:\n  m:\n    recipe: »5\n",
        ["models.m.recipe: expected a mapping with 'architecture' or 'from', got the number 5"],
    ),
    (RECIPE % "steps: »ten", ["models.m.recipe.steps: expected a whole number, got text 'ten'"]),
    (
        RECIPE % 'steps: »"600"',
        ["models.m.recipe.steps: expected a whole number, got text '600'; remove the quotes"],
    ),
    (RECIPE % "steps: »true", ["models.m.recipe.steps: expected a whole number, got true"]),
    (RECIPE % "steps: »5.0", ["models.m.recipe.steps: expected a whole number, got the number 5.0"]),
    (RECIPE % "steps: 5, layers: »0", ["models.m.recipe.layers: must be at least 1, got 0"]),
    (
        RECIPE % "steps: 5, width: 16, initial_scale: »5",
        ["models.m.recipe.initial_scale: must not exceed √width, got 5; √width is 4"],
    ),
    (RECIPE % "steps: 5, width: »10", ["models.m.recipe.width: width 10 is not a multiple of heads 4"]),
    (
        RECIPE % "steps: 5, checkpoints: [0, »6]",
        ["models.m.recipe.checkpoints[1]: must be between 0 and steps (5), got 6"],
    ),
    (RECIPE % "steps: 5, checkpoints: [1, »1]", ["models.m.recipe.checkpoints[1]: step 1 is listed twice"]),
    (RECIPE % "steps: 5, checkpoints: »[]", ["models.m.recipe.checkpoints: must not be empty"]),
    (
        RECIPE % "steps: 5, learning_rate: ».inf",
        ["models.m.recipe.learning_rate: must be a finite number, got inf"],
    ),
    (RECIPE % "steps: 5, mask_share: »1", ["models.m.recipe.mask_share: must be less than 1, got 1"]),
    (
        (
            "study: s\nmodels:\n  m:\n    recipe: {architecture: »gtp2, train_on: c, steps: "
            "5}\ncorpora:\n  c: {texts: [a]}\n"
        ),
        [
            "models.m.recipe.architecture: expected 'bert', 'gpt2', 'llama' or 'roberta', got text "
            "'gtp2'; did you mean 'gpt2'?"
        ],
    ),
    (
        "study: s\nmodels: {m: gpt2}\ncorpora:\n  »c: {limit: 3}\n",
        ["corpora.c: needs one of the keys 'dataset', 'file', 'generate' or 'texts'"],
    ),
    (CORPUS % "texts: »[]", ["corpora.c.texts: must not be empty"]),
    (CORPUS % "file: a.csv, only: »[joy]", ["corpora.c.only: goes with `label`, which names the column of the labels"]),
    (CORPUS % "file: a.csv, by: »[joy]", ["corpora.c.by: goes with `label`, which names the column of the labels"]),
    (
        CORPUS % "file: a.csv, label: mood, only: [joy], by: [joy, »fear]",
        ["corpora.c.by[1]: 'fear' is not among the labels that `only` keeps"],
    ),
    (CORPUS % "file: a.csv, label: mood, by: [joy, »joy]", ["corpora.c.by[1]: 'joy' is listed twice"]),
    (
        CORPUS % "file: a.jsonl, chat: true, role: user, by: »[user]",
        ["corpora.c.by: name all roles here, and leave out `role`"],
    ),
    (
        CORPUS % "file: a.csv, label: mood, by: [a b, »a-b]",
        ["corpora.c.by[1]: its share is named 'c.a-b', and so is another corpus; write it as a corpus of its own"],
    ),
    (
        CORPUS % f"file: a.csv, label: mood, by: [joy, »{'x' * 63}]",
        [
            "corpora.c.by[1]: its share is named 'c.' and the label, which are more than 64 characters; "
            "write it as a corpus of its own"
        ],
    ),
    (
        CORPUS % "file: a.csv, label: mood, by: [a], size_of: »c.a",
        ["corpora.c.size_of: goes in a circle: corpus 'c.a' gets the size of corpus 'c.a'"],
    ),
    (CORPUS % "texts: [a], stride: »4", ["corpora.c.stride: goes with `window`, which is not there"]),
    (
        CORPUS % "texts: [a], window: 8, stride: »9",
        ["corpora.c.stride: must be at most the window (8), or tokens would be skipped; got 9"],
    ),
    (
        CORPUS % "texts: [a], window: 8, max_tokens: »9",
        ["corpora.c.max_tokens: cuts texts, and `window` reads them whole: leave one of the two out"],
    ),
    (CORPUS % "texts: »5", ["corpora.c.texts: expected a list, got the number 5"]),
    (CORPUS % "texts: [a, »5]", ["corpora.c.texts[1]: expected text, got the number 5; put it in quotes"]),
    (
        CORPUS % "file: a.txt, unit: »sentence",
        ["corpora.c.unit: expected 'line', 'paragraph' or 'document', got text 'sentence'"],
    ),
    (
        CORPUS % "texts: [a], »words: [1, 2]",
        ["corpora.c.words: unknown key beside 'texts'; it goes with 'generate'"],
    ),
    (
        CORPUS % "generate: »grammer",
        ["corpora.c.generate: expected 'random-words' or 'grammar', got text 'grammer'; did you mean 'grammar'?"],
    ),
    (
        CORPUS % "generate: grammar, words: »[9, 3]",
        ["corpora.c.words: the fewest words (9) must not exceed the most (3)"],
    ),
    (
        CORPUS % "generate: grammar, words: »9",
        ["corpora.c.words: expected two whole numbers, [fewest, most], got the number 9"],
    ),
    (CORPUS % "generate: grammar, words: [»0, 3]", ["corpora.c.words[0]: must be at least 1, got 0"]),
    (
        CORPUS % "generate: grammar, »vocabulary: m",
        ["corpora.c.vocabulary: goes only with 'generate: random-words', not with 'grammar'"],
    ),
    (
        CORPUS % "texts: [a], min_words: 5, max_words: »4",
        ["corpora.c.max_words: must be at least min_words (5), got 4"],
    ),
    (
        "study: s\nmodels: {m: gpt2}\ncorpora: {c: »notes.txt}\n",
        ["corpora.c: expected a mapping such as {file: texts.txt}, got text 'notes.txt'"],
    ),
    (
        (
            "study: s\nmodels:\n  m:\n    recipe: {architecture: gpt2, train_on: »d, steps: "
            "5}\ncorpora:\n  c: {texts: [a]}\n"
        ),
        ["models.m.recipe.train_on: no corpus 'd'; corpora of this study: c"],
    ),
    (
        "study: s\nmodels: {m: {recipe: {architecture: bert, steps: 1, train_on: »c}}}\n",
        ["models.m.recipe.train_on: no corpus 'c'; this study has no corpora"],
    ),
    (
        CORPUS % "generate: random-words, vocabulary: »gtp",
        ["corpora.c.vocabulary: no model 'gtp'; models of this study: m"],
    ),
    (
        (
            "study: s\nmodels:\n  m: {recipe: {architecture: bert, steps: 1, train_on: c}}\ncorpora:\n  "
            "c: {generate: random-words, vocabulary: »m}\n"
        ),
        [
            "corpora.c.vocabulary: goes in a circle: corpus 'c' draws the words of model 'm', which "
            "is trained on corpus 'c'"
        ],
    ),
    (
        CORPUS % "texts: [a], size_of: »tweets",
        ["corpora.c.size_of: no corpus 'tweets'; corpora of this study: c"],
    ),
    (CORPUS % "texts: [a], size_of: »5", ["corpora.c.size_of: expected text, got the number 5; put it in quotes"]),
    (
        CORPUS % "texts: [a], size_of: »c",
        ["corpora.c.size_of: goes in a circle: corpus 'c' gets the size of corpus 'c'"],
    ),
    (
        "study: s\nmodels: {m: gpt2}\ncorpora:\n  a: {texts: [a], size_of: »b}\n  b: {file: b.txt, size_of: »a}\n",
        [
            "corpora.a.size_of: goes in a circle: corpus 'a' gets the size of corpus 'b', which gets the size of "
            "corpus 'a'",
            "corpora.b.size_of: goes in a circle: corpus 'b' gets the size of corpus 'a', which gets the size of "
            "corpus 'b'",
        ],
    ),
    (
        "study: s\nmodels:\n  m: {recipe: {architecture: bert, steps: 1, train_on: a}}\ncorpora:\n"
        "  a: {texts: [a], size_of: »b}\n  b: {generate: random-words, vocabulary: »m}\n",
        [
            "corpora.a.size_of: goes in a circle: corpus 'a' gets the size of corpus 'b', which draws the words of "
            "model 'm', which is trained on corpus 'a'",
            "corpora.b.vocabulary: goes in a circle: corpus 'b' draws the words of model 'm', which is trained on "
            "corpus 'a', which gets the size of corpus 'b'",
        ],
    ),
    (MODEL + "»metrics: [anisotropy]\n", ["metrics: metrics need texts; add a corpus under 'corpora'"]),
    (
        METRICS + "metrics: [»anisotropi]\n",
        ["metrics[0]: unknown metric 'anisotropi'; did you mean 'anisotropy'?"],
    ),
    (
        METRICS + "metrics: [»xyz]\n",
        ["metrics[0]: unknown metric 'xyz'; there are: anisotropy, convergence, intrinsic_dimension"],
    ),
    (
        METRICS + "metrics: »anisotropy\n",
        ["metrics: expected 'all', 'none' or a list such as [convergence, motion], got text 'anisotropy'"],
    ),
    (METRICS + "metrics: »[]\n", ["metrics: must not be empty; leave it out to have all metrics"]),
    (METRICS + "metrics: [anisotropy, »anisotropy]\n", ["metrics[1]: metric 'anisotropy' is listed twice"]),
    (
        METRICS + "metrics:\n- intrinsic_dimension: {»sampel: 5}\n",
        ["metrics[0].intrinsic_dimension.sampel: unknown key; did you mean 'sample'?"],
    ),
    (
        METRICS + "metrics:\n- intrinsic_dimension:\n    sample: »5\n    share: »2\n    scales: [1, »x]\n",
        [
            "metrics[0].intrinsic_dimension.sample: must be at least 32, got 5",
            "metrics[0].intrinsic_dimension.share: must be at most 1, got 2",
            "metrics[0].intrinsic_dimension.scales[1]: expected a whole number, got text 'x'",
        ],
    ),
    (
        METRICS + "metrics: [{intrinsic_dimension: »5}]\n",
        ["metrics[0].intrinsic_dimension: expected a mapping of options, got the number 5"],
    ),
    (
        METRICS + "metrics: [»{intrinsic_dimension: {}, sample: 5}]\n",
        ["metrics[0]: expected a metric's name or one mapping {name: {option: value}}, got a mapping with 2 keys"],
    ),
    (
        MODEL + "views: [words, »sinks]\n",
        ["views[1]: expected 'words', 'all' or 'no-sinks', got text 'sinks'; did you mean 'no-sinks'?"],
    ),
    (MODEL + "views: [all, »all]\n", ["views[1]: 'all' is listed twice"]),
    (MODEL + "views: »[]\n", ["views: must not be empty"]),
    (MODEL + "views: »words\n", ["views: expected a list, got text 'words'"]),
    (
        MODEL + "run: {device: »gpu}\n",
        ["run.device: expected 'auto', 'cpu', 'mps', 'cuda' or 'cuda:0', got text 'gpu'"],
    ),
    (MODEL + "run: {batch_tokens: »0}\n", ["run.batch_tokens: must be at least 1, got 0"]),
    (MODEL + "run: {seed: »-1}\n", ["run.seed: must be at least 0, got -1"]),
    ("study: s\n»\tmodels: x\n", ["a tab cannot indent or begin a value; use spaces"]),
    ("study: s»: t\n", ["a ':' is not allowed here; check the indentation, or put the text in quotes"]),
    ("study: »'s\nmodels: {}\n", ["a quoted text or a bracket is never closed"]),
    ("study: »[a\nmodels: {}\n", ["'[' opens a list here, in which ',' or ']' is missing before line 2"]),
    (MODEL + " »n: gpt2\n", ["the indentation does not match the lines above, or a quote is missing"]),
    (MODEL + "»---\nstudy: t\n", ["a second document begins here; a study is one document"]),
    (MODEL + "title: »@x\n", ["a value cannot begin with this character; put it in quotes"]),
    (
        MODEL + 'title: "\\»q"\n',
        ["unknown escape in double quotes; write '\\\\' for a backslash, or use single quotes"],
    ),
    (
        MODEL + "title: a»\u0007b\n",
        ["character U+0007 is not allowed here; remove it, or write it as an escape in double quotes"],
    ),
    (MODEL + "title: t\n»title: u\n", ["title: duplicate key; it is already on line 4"]),
    (MODEL + "  n: gpt2\n  »m: bert\n", ["models.m: duplicate key; it is already on line 3"]),
    (
        "study: s\nmodels: {»1: gpt2, m: gpt2}\n",
        ["models: a key must be text, got the number 1; put it in quotes"],
    ),
    ("study: s\nmodels: {»[a]: gpt2, m: gpt2}\n", ["models: a key must be text, got a list"]),
    (
        "study: s\nmodels: {m: &x {hub: gpt2}, n: »*x}\n",
        ["aliases (*x) are not supported; write the value out"],
    ),
    (
        "study: s\nmodels: {m: {»<<: {hub: gpt2}, hub: b}}\n",
        ["models.m: merge keys (<<) are not supported; write the keys out"],
    ),
    (
        MODEL + "title: »!!python/object:os.system x\n",
        ["title: tags such as !python/object:os.system are not supported"],
    ),
    (MODEL + "title: »!x y\n", ["title: tags such as !x are not supported"]),
    (MODEL + "run: {seed: »!!int x}\n", ["run.seed: text 'x' does not fit the tag !!int"]),
    (
        MODEL + '»a\\nb: 1\n»"c\\nd\\e[1m[red]": 2\n',
        [f"'a\\nb': {UNKNOWN_AT_TOP}", f"'c\\nd\\x1b[1m[red]': {UNKNOWN_AT_TOP}"],
    ),
    (
        MODEL + "title: one»\u2028two\n",
        ["character U+2028 is not allowed here; remove it, or write it as an escape in double quotes"],
    ),
    ("study: s\nmodels:\n  »gpt2 openai/gpt2\n", ["models: expected a mapping, got text 'gpt2 openai/gpt2'"]),
    (
        "study: s\nmodels:\n  a: »{hub: gpt2\n  b: {hub: bert}\n",
        ["'{' opens a mapping here, in which ',' or '}' is missing before line 4"],
    ),
    (
        (
            "study: s\nmodels:\n  m: {recipe: {architecture: llama, heads: 4, width: »20, steps: 1, "
            "train_on: c}}\ncorpora: {c: {texts: [a]}}\n"
        ),
        ["models.m.recipe.width: llama needs an even width for each head, got 20 / 4"],
    ),
    (MODEL + "run: {seed: »1_000}\n", ["run.seed: expected a whole number, got text '1_000'"]),
    (MODEL + "run: {seed: »4294967296}\n", ["run.seed: must be at most 4294967295, got 4294967296"]),
    (MODEL + 'title: »"\\ud800"\n', ["title: text contains half of a character (a lone surrogate)"]),
    (MODEL + "title: »[[no]]\n", ["title: expected text, got a list"]),
    (
        METRICS + "metrics: [anisotropy]\nclaims:\n  d:\n    says: x\n"
        "    differ: {metric: anisotropy.mean_cosine, is: above, a: {corpus: c}, b: {models: »false}}\n",
        ["claims.d.differ.b.models: expected a name or a list of names, got false"],
    ),
]
