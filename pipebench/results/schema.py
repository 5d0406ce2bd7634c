"""The JSON Schema of a report, with the descriptions that its dataclasses have."""

from __future__ import annotations

import inspect
import json
from typing import Any

import msgspec

from pipebench.results.report import SCHEMA_VERSION, Report


def json_schema() -> str:
    """JSON Schema 2020-12 of a report, as text. Units are in the names: `_s` seconds, `_bytes`, `_per_s`."""
    (root,), parts = msgspec.json.schema_components([Report], ref_template="#/$defs/{name}")
    made = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"pipebench report, schema {SCHEMA_VERSION}",
        **root,
        "$defs": {name: _described(part) for name, part in sorted(parts.items())},
    }
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def _described(part: dict[str, Any]) -> dict[str, Any]:
    """The part with its description in one piece, without the signature that a class without docstring would give."""
    text = inspect.cleandoc(part.get("description", ""))
    return {**part, **({"description": text} if text else {})}
