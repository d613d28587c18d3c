"""Imports every module of generated Python clients. Each client reads the example of every successful response in
JSON and writes it again; the result must equal the example.

Usage: examples.py GENERATOR=PACKAGE=DOCUMENT..., with the packages in the search path. The generator is
`openapi-python-client` or `openapi-generator`. The document is the one that the package was generated from.
"""

import ast
import datetime
import importlib
import inspect
import json
import pathlib
import pkgutil
import sys
import textwrap

import httpx


def modules(package):
    """Imports all modules of a package and returns them by their last name."""
    found = pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    return {name.rsplit(".", 1)[-1]: importlib.import_module(name) for _, name, _ in found}


def examples(document):
    """Yields the operation ID, the status and the example of every successful response in JSON."""

    def resolved(value):
        while "$ref" in value:
            target = document
            for part in value["$ref"].split("/")[1:]:
                target = target[part.replace("~1", "/").replace("~0", "~")]
            value = target
        return value

    for item in document["paths"].values():
        for operation in item.values():
            if not isinstance(operation, dict) or "operationId" not in operation:
                continue
            for status, response in operation["responses"].items():
                for media, content in resolved(response).get("content", {}).items():
                    is_json = media == "application/json" or media.endswith("+json")
                    # Clients return documents of package managers as bytes.
                    schema = resolved(content["schema"])
                    is_binary = schema.get("format") == "binary" or "contentMediaType" in schema
                    if status.startswith("2") and is_json and not is_binary:
                        yield operation["operationId"], int(status), content["example"]


def normal(value):
    """Returns a value with all times in one format, because clients write the same time in other formats."""
    if isinstance(value, dict):
        return {key: normal(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [normal(inner) for inner in value]
    if isinstance(value, str) and "T" in value:
        try:
            return datetime.datetime.fromisoformat(value).astimezone(datetime.timezone.utc).isoformat()
        except ValueError:
            pass
    return value


def without_nulls(value):
    """Returns a value without attributes that are null: openapi-generator does not distinguish null and absent."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [without_nulls(inner) for inner in value]
    return value


def plain(value):
    """Returns the JSON value of an object of openapi-python-client."""
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return value.to_dict() if hasattr(value, "to_dict") else value


class PythonClient:
    """The client of openapi-python-client: a module for each operation."""

    compared = staticmethod(lambda value: value)

    def __init__(self, package):
        self.modules = modules(package)
        self.client = package.AuthenticatedClient(
            base_url="http://127.0.0.1", token="token", raise_on_unexpected_status=True
        )

    def written(self, operation, status, example):
        """Returns the example after it was read and written."""
        response = httpx.Response(status, json=example)
        return plain(self.modules[operation]._parse_response(client=self.client, response=response))


class GeneratedClient:
    """The client of openapi-generator: a class with a method for each operation of a tag."""

    compared = staticmethod(without_nulls)

    def __init__(self, package):
        modules(package)
        self.client = package.ApiClient()
        classes = [value for name, value in vars(package).items() if name.endswith("Api")]
        self.operations = {name: tag for tag in classes for name in vars(tag) if not name.startswith("_")}

    def written(self, operation, status, example):
        """Returns the example after it was read and written."""
        api = self.operations[operation](self.client)
        type_of = response_types(api, operation)[str(status)]
        read = self.client.deserialize(json.dumps(example), type_of, "application/json")
        return self.client.sanitize_for_serialization(read)


def response_types(api, operation):
    """Returns the types of the responses of an operation by status, which its method contains as a constant."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(getattr(api, operation))))
    for node in ast.walk(tree):
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        if any(isinstance(target, ast.Name) and target.id == "_response_types_map" for target in targets):
            return ast.literal_eval(node.value)
    raise LookupError(f"{operation} has no types of responses")


CLIENTS = {"openapi-python-client": PythonClient, "openapi-generator": GeneratedClient}


def check(generator, package, document):
    """Yields the operations of a client whose examples are not read and written."""
    client = CLIENTS[generator](importlib.import_module(package))
    found = list(examples(json.loads(pathlib.Path(document).read_text())))
    for operation, status, example in found:
        try:
            written = json.loads(json.dumps(client.written(operation, status, example)))
            if client.compared(normal(written)) != client.compared(normal(example)):
                yield f"{package}: {operation}: {written} is not {example}"
        except Exception as error:  # Each fault is reported.
            yield f"{package}: {operation}: {error!r}"
    assert found, f"{document} has no examples"
    print(f"{package} ({generator}): {len(found)} examples")


def main():
    faults = [fault for argument in sys.argv[1:] for fault in check(*argument.split("="))]
    if faults:
        sys.exit("\n".join(faults))


main()
