"""The schema that editors use says the same as the program."""

import json
import re

import jsonschema
import pytest
from spec.conftest import offered
from spec.test_mutations import VALID

from reporter.runs.studies import offer
from reporter.spec import study_schema
from reporter.spec.load import shipped
from reporter.spec.yaml_reader import read_yaml

SMALL = "study: s\nmodels: {m: gpt2}\n"
TEXTS = SMALL + "corpora: {c: {texts: [a]}}\n"
BAD = [
    "study: S\nmodels: {m: gpt2}\n",
    "study: s\n",
    "study: s\nmodels: {m: 5}\n",
    "study: s\nmodels: {m: {hub: gpt2, dtype: float23}}\n",
    SMALL + "xyzzy: {}\n",
    SMALL + "run: {batch_tokens: 0}\n",
    "study: s\nmodels: {b: {recipe: {from: a, layers: 5, steps: 5, train_on: c}}}\ncorpora: {c: {texts: [a]}}\n",
    TEXTS + "claims: {a: {says: x, shape: {metric: anisotropy.x, is: bel}}}\n",
    TEXTS + "claims: {a: {shape: {metric: anisotropy.x, is: bell}}}\n",
    TEXTS + "metrics: [{intrinsic_dimension: {sampel: 64}}]\n",
    TEXTS + "metrics: [{intrinsic_dimension: {sample: 3}}]\n",
    SMALL + "corpora: {c: {texts: []}}\n",
    SMALL + "corpora: {c: {generate: grammar, words: [1, 2, 3]}}\n",
]


@pytest.fixture(scope="module")
def schema(catalogue):
    return study_schema(offered(catalogue))


def test_it_is_a_schema_and_plain_json(schema):
    jsonschema.Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(schema)) == schema
    assert next(iter(schema)) == "$schema"
    assert schema["title"] and schema["description"]


def test_the_schema_takes_short_forms_and_every_shipped_study(schema):
    jsonschema.Draft202012Validator(schema).validate(VALID)
    validator = jsonschema.Draft202012Validator(study_schema(offer()))
    for path in shipped().values():
        validator.validate(read_yaml(path.read_text("utf-8")).data)


@pytest.mark.parametrize("text", BAD)
def test_what_the_schema_refuses_the_program_refuses(schema, complain, text):
    assert complain(text)
    assert not jsonschema.Draft202012Validator(schema).is_valid(read_yaml(text).data)


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
