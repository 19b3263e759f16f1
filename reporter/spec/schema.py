"""The JSON Schema of a study, for editors that complete and check YAML."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from reporter.spec.offer import Offer
from reporter.spec.study import study_form


def study_schema(offer: Offer) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a study file, with all metrics' options and analyses' items.

    Args:
        offer: what a study may ask for.
    """
    metrics, study = offer.metrics, study_form(offer)
    models: list[type[BaseModel]] = [study, *metrics.values()]
    references, together = models_json_schema([(model, "validation") for model in models])
    definitions = together["$defs"]
    schema = definitions.pop(references[study, "validation"]["$ref"].rsplit("/", 1)[1])
    options = {name: references[model, "validation"] for name, model in metrics.items()}
    schema["properties"]["metrics"] = {
        "description": schema["properties"]["metrics"]["description"],
        "default": "all",
        "anyOf": [{"enum": ["all", "none"]}, {"type": "array", "minItems": 1, "items": _metric(options)}],
    }
    # A study that extends another has its models from there.
    schema["required"] = ["study"]
    schema["anyOf"] = [{"required": ["models"]}, {"required": ["extends"]}]
    # What exists only in Python (the choice of a metric) leaves definitions that nobody refers to.
    text = json.dumps([schema, definitions])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A study of reporter",
        "description": schema.pop("description"),
        **{key: value for key, value in schema.items() if key != "title"},
        "$defs": {name: found for name, found in definitions.items() if f'"#/$defs/{name}"' in text},
    }


def _metric(options: dict[str, Any]) -> dict[str, Any]:
    with_options = {
        "type": "object",
        "properties": {name: {"anyOf": [reference, {"type": "null"}]} for name, reference in options.items()},
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }
    return {"anyOf": [{"enum": list(options)}, with_options]}
