"""Messages about wrong keys and shapes: the key that is meant, and an example that is right as it stands."""

import pytest

from reporter.core.errors import suggest
from reporter.runs.studies import offer
from reporter.study import SpecError, load_study
from reporter.study.part import keys_of
from reporter.study.study import study_form
from reporter.study.yaml_reader import read_yaml

KEYS = keys_of(study_form(offer()))
SECTIONS = offer().sections
STUDY = "study: s\nmodels: {{m: {{path: .}}}}\ncorpora: {{CORPUS: {{texts: [a b]}}}}\nmetrics: {metrics}\n{more}"


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_known_by_its_singular_its_plural_and_with_two_letters_turned(key):
    wrong = {key + "s", key.removesuffix("s"), key[0] + key[2] + key[1] + key[3:]} - set(KEYS)
    wrong |= {"corpus"} if key == "corpora" else set()
    assert {suggest(word, KEYS) for word in wrong} <= {key}


@pytest.mark.parametrize("name", SECTIONS)
def test_an_analysis_among_the_metrics_is_told_apart_with_an_example_that_is_right(name, tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(STUDY.format(metrics=f"[{name}]", more=""))
    with pytest.raises(SpecError) as caught:
        load_study(path, offer())
    example = SECTIONS[name].example
    assert f"'{name}' is an analysis" in str(caught.value) and f"`{name}: {example}`" in str(caught.value)
    path.write_text(
        STUDY.format(metrics="none", more=f"{name}: {example}\n".replace("[CORPUS, CORPUS]", "[CORPUS, b]"))
    )
    try:
        load_study(path, offer())
    except SpecError as error:  # the names of a study alone are missing
        assert all("no corpus" in str(problem) or "labels" in str(problem) for problem in error.problems), error


def test_examples_of_keys_have_the_right_shape():
    for key, example in study_form(offer()).examples.items():
        assert not read_yaml(f"{key}: {example}").problems, key
