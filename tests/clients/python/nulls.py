"""Checks that the OpenAPI 3.1 form of the document accepts null where the 3.0 form has `nullable: true`, and only
there.

Each schema with `nullable: true` must accept null at the same JSON pointer of the 3.1 form. Each other attribute with
a type must reject null. Each nullable attribute of each example in JSON is set to null: the example must remain
valid.

Usage: nulls.py DOCUMENT DOCUMENT_3_1
"""

import json
import pathlib
import sys
import urllib.parse

import jsonschema_rs

BASE = "urn:document"
UNIONS = ("allOf", "anyOf", "oneOf")
# Keywords with values instead of schemas.
VALUES = ("example", "enum", "default")


def escaped(key):
    return str(key).replace("~", "~0").replace("/", "~1")


def at(document, pointer):
    """Returns the value at a JSON pointer."""
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        document = document[int(key) if isinstance(document, list) else key]
    return document


def nodes(value, pointer=""):
    """Yields all objects of a document with their JSON pointers, except those in examples and other values."""
    if isinstance(value, dict):
        yield pointer, value
        names = pointer.endswith("/properties")
        inner = ((escaped(key), each) for key, each in value.items() if names or key not in VALUES)
    elif isinstance(value, list):
        inner = enumerate(value)
    else:
        return
    for key, each in inner:
        yield from nodes(each, f"{pointer}/{key}")


def is_attribute(pointer):
    parent = pointer.rpartition("/")[0]
    return parent.endswith("/properties") and not parent.endswith("/properties/properties")


class Forms:
    """Both forms of the document."""

    def __init__(self, older, newer):
        self.older = older
        self.registry = jsonschema_rs.Registry([(BASE, newer)], draft=jsonschema_rs.Draft202012)
        self.validators = {}

    def accepts(self, pointer, value):
        """Returns whether the schema at a JSON pointer of the 3.1 form accepts a value."""
        if pointer not in self.validators:
            # An extension of 3.0 is a part of 3.1.
            newer = pointer.replace("/x-webhooks/", "/webhooks/")
            schema = {"$ref": f"{BASE}#{urllib.parse.quote(newer, safe='/~')}"}
            self.validators[pointer] = jsonschema_rs.Draft202012Validator(schema, registry=self.registry)
        return self.validators[pointer].is_valid(value)

    def inner(self, pointer, name):
        """Yields the JSON pointers of the schemas of an attribute, or of the items of a list if the name is None."""
        schema = at(self.older, pointer)
        if "$ref" in schema:
            yield from self.inner(schema["$ref"].removeprefix("#"), name)
        for union in UNIONS:
            for index in range(len(schema.get(union, []))):
                yield from self.inner(f"{pointer}/{union}/{index}", name)
        if name is None and "items" in schema:
            yield f"{pointer}/items"
        elif name in schema.get("properties", {}):
            yield f"{pointer}/properties/{escaped(name)}"

    def nullable(self, pointers, value):
        """Yields the object and the name of each nullable attribute of an example."""
        if isinstance(value, list):
            inner = [pointer for one in pointers for pointer in self.inner(one, None)]
            for each in value:
                yield from self.nullable(inner, each)
        elif isinstance(value, dict):
            for name, each in value.items():
                inner = [pointer for one in pointers for pointer in self.inner(one, name)]
                if inner and all(at(self.older, pointer).get("nullable") for pointer in inner):
                    yield value, name
                yield from self.nullable(inner, each)

    def check_schemas(self):
        """Yields a fault, or None, for each schema that is nullable, and for each other attribute with a type."""
        for pointer, schema in nodes(self.older):
            is_nullable = schema.get("nullable") is True
            if is_nullable or (is_attribute(pointer) and "type" in schema):
                is_right = self.accepts(pointer, None) == is_nullable
                yield None if is_right else f"{pointer} must {'accept' if is_nullable else 'reject'} null"

    def check_examples(self):
        """Yields a fault, or None, for each nullable attribute of each example in JSON."""
        for pointer, media in nodes(self.older):
            # Examples of parameters and of texts are no objects or lists.
            if not {"schema", "example"} <= media.keys() or not isinstance(media["example"], (dict, list)):
                continue
            schema, example = f"{pointer}/schema", media["example"]
            if not self.accepts(schema, example):
                yield f"{pointer}/example is invalid"
            for parent, name in list(self.nullable([schema], example)):
                before, parent[name] = parent[name], None
                yield None if self.accepts(schema, example) else f"{pointer}/example is invalid if `{name}` is null"
                parent[name] = before


def main():
    older, newer = (json.loads(pathlib.Path(path).read_text()) for path in sys.argv[1:])
    forms = Forms(older, newer)
    schemas, examples = list(forms.check_schemas()), list(forms.check_examples())
    faults = [fault for fault in schemas + examples if fault]
    if faults:
        sys.exit("\n".join(faults))
    print(f"null is accepted as documented by {len(schemas)} schemas and at {len(examples)} places of examples")


main()
