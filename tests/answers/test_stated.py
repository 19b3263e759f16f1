"""Claims and findings in Markdown, in the words of the tables."""

from __future__ import annotations

from reporter.answers import stated
from reporter.answers.markdown import markdown

CLAIMS = [
    {"claim": "c", "number": 1, "reading": 1, "says": "a | b\nis large", "view": "words", "baseline": None}
    | {"verdict": "supported"}
    | {"value": 0.98765, "ci_low": 0.9, "ci_high": 0.99},
    {"claim": "c", "number": 1, "reading": 2, "says": "a | b\nis large", "view": "no-sinks", "baseline": None}
    | {"verdict": "refuted"}
    | {"value": 0.1, "ci_low": None, "ci_high": None},
    {"claim": "sql", "number": 2, "reading": 1, "says": "by SQL", "view": None, "baseline": None, "verdict": "failed"}
    | {"value": None, "ci_low": None, "ci_high": None},
]
BY_MODEL = [{"claim": "c", "model": "bert", "verdict": "refuted", "value": 0.2, "ci_low": 0.1, "ci_high": 0.3}]
FINDINGS = [{"says": "In m it peaks.", "value": 0.5, "ci_low": 0.4, "ci_high": 0.6, "looked_at": 1234}]


def told(only):
    def read(sql):
        return BY_MODEL if "claims_by_model" in sql else CLAIMS if "FROM claims" in sql else FINDINGS

    return markdown(stated(read, only))


def test_verdicts_are_a_table_and_findings_a_list():
    text = told(["claims", "findings", "layer"])
    assert "1 supported, 1 failed" in text
    assert "| a \\| b is large | words | supported | 0.988 | 0.9 to 0.99 |" in text
    assert "| the same | no-sinks | refuted | 0.1 |  |" in text
    assert "| a \\| b is large | bert | refuted | 0.2 | 0.1 to 0.3 |" in text
    assert "1,234 questions" in text and "- In m it peaks. (Difference 0.5, 95 %: 0.4 to 0.6.)" in text
    assert text.index("## What does it claim?") < text.index("## What stands out?")


def test_only_what_was_asked_for():
    assert "claim" not in told(["findings"]).partition("\n")[0]
    assert told(["layer"]) == ""
