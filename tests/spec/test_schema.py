"""The schema that editors use says the same as the program."""

import json
import re

import jsonschema
import pytest
from spec.conftest import offered

from reporter.spec import study_schema
from reporter.spec.yaml_reader import read_yaml

SMALL = "study: s\nmodels: {m: gpt2}\n"
TEXTS = SMALL + "corpora: {c: {texts: [a]}}\n"
GOOD = [
    SMALL,
    "study: s\nmodels: {m: {hub: gpt2, checkpoints: [step1, {revision: main, step: 2}]}}\n",
    "study: s\nmodels: {m: {path: ./x, checkpoints: [a-1, {folder: b}]}}\n",
    "study: s\n"
    "models: {m: {recipe: {architecture: bert, steps: 5, train_on: c, checkpoints: [0, 5]}}}\n"
    "corpora: {c: {generate: grammar, words: [1, 9]}, d: {texts: [a]}, e: {file: x}, f: {dataset: y, size_of: c}}\n"
    "metrics: [convergence, {intrinsic_dimension: {sample: 64}}, anisotropy:]\n"
    "views: [all]\nrun: {device: 'cuda:1', precision: mixed}\n",
    "study: s\nmodels: {a: {recipe: {architecture: bert, steps: 5, train_on: c}}, "
    "b: {recipe: {from: a, steps: 5, train_on: c}}}\ncorpora: {c: {texts: [a]}}\n",
    TEXTS + "claims:\n"
    "  a: {says: x, value: {metric: convergence.rate, model: m}, paper: 1, within: 0.1}\n"
    "  b: {says: x, value: {sql: SELECT 1}, between: [1, {metric: convergence.rate, model: m}]}\n"
    "  c: {says: x, shape: {metric: anisotropy.x, models: [m], is: peak-at, at: 1}}\n"
    "  d: {says: x, differ: {metric: anisotropy.x, a: encoders, b: {models: m, corpus: [c]}, is: above, layer: last}}\n"
    "  e: {says: x, relation: {x: anisotropy.x, y: anisotropy.y, over: layers, is: none, at_least: 0.3}}\n",
]
BAD = [
    "study: S\nmodels: {m: gpt2}\n",
    "study: s\n",
    "study: s\nmodels: {m: 5}\n",
    "study: s\nmodels: {m: {hub: gpt2, dtype: float23}}\n",
    SMALL + "xyzzy: {}\n",
    SMALL + "run: {device: gpu}\n",
    SMALL + "run: {batch_tokens: 0}\n",
    "study: s\nmodels: {b: {recipe: {from: a, layers: 5, steps: 5, train_on: c}}}\ncorpora: {c: {texts: [a]}}\n",
    TEXTS + "claims: {a: {says: x, shape: {metric: anisotropy.x, is: bel}}}\n",
    TEXTS + "claims: {a: {shape: {metric: anisotropy.x, is: bell}}}\n",
    TEXTS + "metrics: [{intrinsic_dimension: {sampel: 64}}]\n",
    TEXTS + "metrics: [{intrinsic_dimension: {sample: 3}}]\n",
    SMALL + "corpora: {c: {texts: []}}\n",
    SMALL + "corpora: {c: {texts: [a], size_of: 5}}\n",
    SMALL + "corpora: {c: {generate: grammar, words: [1, 2, 3]}}\n",
]


@pytest.fixture(scope="module")
def schema(catalogue):
    return study_schema(offered(catalogue))


@pytest.fixture(scope="module")
def validator(schema):
    return jsonschema.Draft202012Validator(schema)


def test_it_is_a_schema_and_plain_json(schema):
    jsonschema.Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(schema)) == schema
    assert next(iter(schema)) == "$schema"
    assert schema["title"] and schema["description"]


@pytest.mark.parametrize("text", GOOD)
def test_what_the_program_takes_the_schema_takes(validator, load, text):
    load(text)
    validator.validate(read_yaml(text).data)


@pytest.mark.parametrize("text", BAD)
def test_what_the_schema_refuses_the_program_refuses(validator, complain, text):
    assert complain(text)
    assert not validator.is_valid(read_yaml(text).data)


def test_every_key_of_a_study_is_described_and_every_definition_used(schema):
    parts = [schema, *schema["$defs"].values()]
    silent = [
        f"{part.get('title')}.{key}"
        for part in parts
        for key, value in part.get("properties", {}).items()
        if not value.get("description")
    ]
    assert silent == []

    used = set(re.findall(r'"#/[$]defs/(\w+)"', json.dumps(schema)))
    assert used == set(schema["$defs"])
