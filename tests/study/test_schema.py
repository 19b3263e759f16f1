"""The schema that editors use says the same as the program."""

import json
import re

import jsonschema
import pytest
from faults.inputs import SHORT
from study.conftest import offered

from reporter.runs.studies import offer
from reporter.study import study_schema
from reporter.study.load import shipped
from reporter.study.yaml_reader import read_yaml

SMALL = "study: s\nmodels: {m: gpt2}\n"
TEXTS = SMALL + "corpora: {c: {texts: [a]}}\n"
BAD = [
    "study: S\nmodels: {m: gpt2}\n",
    "study: s\nmodels: {m: 5}\n",
    "study: s\nmodels: {m: {hub: gpt2, dtype: float23}}\n",
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


def test_it_is_a_schema_and_plain_json_with_every_key_described_and_every_definition_used(schema):
    jsonschema.Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(schema)) == schema
    assert next(iter(schema)) == "$schema" and schema["title"] and schema["description"]
    for part in (schema, *schema["$defs"].values()):
        for key, value in part.get("properties", {}).items():
            assert value.get("description"), f"{part.get('title')}.{key}"
    assert set(re.findall(r'"#/[$]defs/(\w+)"', json.dumps(schema))) == set(schema["$defs"])


def test_the_schema_takes_short_forms_and_every_shipped_study():
    validator = jsonschema.Draft202012Validator(study_schema(offer()))
    for text in (*SHORT, *(path.read_text("utf-8") for path in shipped().values())):
        validator.validate(read_yaml(text).data)


def test_what_the_schema_refuses_the_program_refuses(schema, complain):
    for text in BAD:
        assert complain(text)
        assert not jsonschema.Draft202012Validator(schema).is_valid(read_yaml(text).data), text
