"""Imports every module of the two generated Python clients. Each client reads the example of every successful response in
JSON and writes it again; the result must equal the example.

Usage: examples.py DOCUMENT, with the packages `python_client` (openapi-python-client) and `generated_client`
(openapi-generator) in the search path.
"""

import ast
import datetime
import importlib
import inspect
import json
import pkgutil
import sys
import textwrap

import generated_client
import httpx
import python_client


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
                    is_binary = resolved(content["schema"]).get("format") == "binary"
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

    def __init__(self):
        self.modules = modules(python_client)
        self.client = python_client.AuthenticatedClient(
            base_url="http://127.0.0.1", token="token", raise_on_unexpected_status=True
        )

    def written(self, operation, status, example):
        """Returns the example after it was read and written."""
        response = httpx.Response(status, json=example)
        return plain(self.modules[operation]._parse_response(client=self.client, response=response))


class GeneratedClient:
    """The client of openapi-generator: a class with a method for each operation of a tag."""

    compared = staticmethod(without_nulls)

    def __init__(self):
        modules(generated_client)
        self.client = generated_client.ApiClient()
        classes = [value for name, value in vars(generated_client).items() if name.endswith("Api")]
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


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        document = json.load(file)
    found = list(examples(document))
    faults = []
    for client in (PythonClient(), GeneratedClient()):
        for operation, status, example in found:
            try:
                written = json.loads(json.dumps(client.written(operation, status, example)))
                if client.compared(normal(written)) != client.compared(normal(example)):
                    faults.append(f"{type(client).__name__}: {operation}: {written} is not {example}")
            except Exception as error:  # Each fault is reported.
                faults.append(f"{type(client).__name__}: {operation}: {error!r}")
    if faults:
        sys.exit("\n".join(faults))
    print(f"two generated clients read and write {len(found)} examples")


main()
