"""The tools of Google's Gemini API as functions, and its schemas, which are almost JSON's."""

from __future__ import annotations

import re
from typing import Any

from harness.proxy.dialects.gemini_input import field
from harness.proxy.dialects.protocol import Json, mapping, sequence

_NESTED = ("items", "additionalProperties")
_MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "$defs", "definitions")
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
_UNKNOWN = ("nullable", "propertyOrdering", "example")


def functions_of(tools: object, choice: Json) -> list[dict[str, Any]]:
    """The functions that the model may call. Tools that only Google's own service can run are not offered."""
    allowed = sequence(field(choice, "allowedFunctionNames"))
    declared = [
        mapping(each) for tool in sequence(tools) for each in sequence(field(mapping(tool), "functionDeclarations"))
    ]
    return [
        {
            "type": "function",
            "function": {
                "name": each.get("name"),
                "description": each.get("description") or "",
                "parameters": _parameters(each),
            },
        }
        for each in declared
        if not allowed or each.get("name") in allowed
    ]


def choice_of(choice: Json) -> dict[str, Any]:
    """Whether the model has to call one."""
    match choice.get("mode"):
        case "ANY":
            return {"tool_choice": "required"}
        case "NONE":
            return {"tool_choice": "none"}
    return {}


def json_schema(schema: Json) -> dict[str, Any]:
    """A schema in Google's form as JSON's: types in small letters, null as a type, numbers of 64 bits as numbers."""
    made = {_camel(str(key)): value for key, value in schema.items()}
    made = {key: value for key, value in made.items() if key not in _UNKNOWN}
    for key in _NESTED:
        if isinstance(made.get(key), dict):
            made[key] = json_schema(made[key])
    for key in _MANY:
        if key in made:
            made[key] = [json_schema(mapping(each)) for each in sequence(made[key])]
    for key in _NAMED:
        if key in made:
            made[key] = {str(name): json_schema(mapping(each)) for name, each in mapping(made[key]).items()}
    for key in _COUNTS:
        if isinstance(made.get(key), str) and made[key].isdecimal():
            made[key] = int(made[key])
    if isinstance(made.get("type"), str):
        kind = made["type"].lower()
        made["type"] = [kind, "null"] if schema.get("nullable") is True else kind
    return made


def _camel(key: str) -> str:
    return re.sub("_([a-z])", lambda found: found[1].upper(), key)


def _parameters(function: Json) -> dict[str, Any]:
    given = field(function, "parametersJsonSchema")
    if isinstance(given, dict):
        return given
    schema = function.get("parameters")
    return json_schema(schema) if isinstance(schema, dict) and schema else {"type": "object", "properties": {}}
