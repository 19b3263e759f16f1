"""The page of every key of a study, from its JSON Schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from reporter.docs.markdown import code, facts, prose

Schema = Mapping[str, Any]


def keys_page(schema: Schema) -> str:
    """Return the page, in Markdown.

    Args:
        schema: the JSON Schema of a study. The options of metrics are left out: they stand on the metrics' pages.
    """
    parts, shown = schema["$defs"], {"Options"}
    lines = [
        "# Keys of a study\n",
        "Only `study` and `models` are required. Paths are relative to the study file. `reporter schema` prints the "
        "same as a JSON Schema, for editors that complete and check YAML.\n",
    ]
    for key, said in schema["properties"].items():
        lines += [f"(key-{key})=\n## {key}\n", f"{prose(said.get('description', ''))}\n"]
        lines += [facts({"Holds": _holds(said, parts), "If left out": _default(key, said, schema)})]
        if key == "metrics":
            lines += ["Each metric's options stand on [its page](metrics/index.md).\n"]
            continue
        for name in _reached(said, parts):
            if name not in shown:
                shown.add(name)
                lines += [f"### {_title(name)}\n", _part(parts[name], parts)]
    return "\n".join(lines)


def _part(part: Schema, parts: Schema) -> str:
    said = [f"{prose(part['description'])}\n"] if "description" in part else []
    keys = {}
    for key, form in part.get("properties", {}).items():
        default = _default(key, form, part)
        tail = "; ".join(words for words in (_holds(form, parts), default and f"if left out: {default}") if words)
        keys[code(key)] = f"{prose(form.get('description', ''))} ({tail})"
    return "\n".join([*said, *(f"{key}\n: {fact}\n" for key, fact in keys.items())])


def _default(key: str, form: Schema, around: Schema) -> str:
    if key in around.get("required", ()):
        return "not allowed: it is required"
    default = form.get("default")
    return "" if default in (None, [], {}, "") else code(json.dumps(default, ensure_ascii=False))


def _holds(form: Schema, parts: Schema) -> str:
    """Return in words what may stand there."""
    if "$ref" in form:
        name = form["$ref"].rsplit("/", 1)[1]
        return _title(name).lower()
    if "anyOf" in form:
        told = [_holds(one, parts) for one in form["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(told))
    if "const" in form:
        return code(str(form["const"]))
    if "enum" in form:
        return ", ".join(code(str(one)) for one in form["enum"])
    kind = form.get("type")
    if kind == "array":
        return f"list of: {_holds(form['items'], parts)}" if isinstance(form.get("items"), Mapping) else "list"
    if kind == "object":
        inner = form.get("additionalProperties")
        return f"by name: {_holds(inner, parts)}" if isinstance(inner, Mapping) else "mapping"
    words = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true` or `false`"}
    least, most = form.get("minimum"), form.get("maximum")
    bounds = [f"at least {least}"] * (least is not None) + [f"at most {most}"] * (most is not None)
    return " ".join([words.get(str(kind), "anything"), *([", ".join(bounds)] if bounds else [])])


def _reached(form: Any, parts: Schema) -> Iterator[str]:
    """Yield the names of the parts that a form leads to, those it names itself first."""
    waiting, seen = [form], set()
    while waiting:
        for name in re.findall(r'"#/\$defs/(\w+)"', json.dumps(waiting.pop(0))):
            if name not in seen:
                seen.add(name)
                waiting.append(parts[name])
                yield name


def _title(name: str) -> str:
    """Return a part's name as words: 'Path model' for PathModel."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.strip("_")).removesuffix(" Spec").removesuffix("Spec")
    return words.capitalize()
