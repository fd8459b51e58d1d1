"""Checks a value against the part of JSON Schema that docs/*.schema.json use; any other word there is an error."""

import re

TYPES = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
}
WORDS = {"$schema", "$defs", "$ref", "title", "description", "type", "required", "properties", "items", "enum", "pattern", "minimum"}


def violations(value, schema, root=None, where="$", closed=True):
    """What is wrong, as texts; with `closed`, keys that the schema does not name too: the document must keep up."""
    root = root or schema
    unknown = set(schema) - WORDS
    assert not unknown, f"{where}: the check does not know {unknown}"
    if "$ref" in schema:
        return violations(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, where, closed)
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(TYPES[one](value) for one in types):
        return [f"{where}: {value!r} is not {types}"]
    found = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{where}: {value!r} is not one of {schema['enum']}")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{where}: {value!r} is not {schema['pattern']}")
    if "minimum" in schema and value < schema["minimum"]:
        found.append(f"{where}: {value} is below {schema['minimum']}")
    if isinstance(value, dict) and "properties" in schema:
        properties = schema["properties"]
        found += [f"{where}: no {key}" for key in schema.get("required", []) if key not in value]
        for key, inner in value.items():
            if key in properties:
                found += violations(inner, properties[key], root, f"{where}.{key}", closed)
            elif closed:
                found.append(f"{where}.{key}: the schema does not name it")
    if isinstance(value, list):
        for i, inner in enumerate(value):
            found += violations(inner, schema.get("items", {}), root, f"{where}[{i}]", closed)
    return found
