"""Runs scim2-tester against the SCIM API of a group, with the strictest settings.

Usage: scim_compliance.py BASE_URL TOKEN

Fails on a finding that is not in ACCEPTED, and on an accepted finding that no longer occurs. A key of users that the
published schema does not describe is a finding too.
"""

import random
import re
import sys

import requests
from httpx2 import Client
from scim2_client.engines.httpx2 import SyncSCIMClient
from scim2_models import Attribute, ResourceType, Schema, ScimProvider, ServiceProviderConfig
from scim2_tester import Status, check_server

USER = "urn:ietf:params:scim:schemas:core:2.0:User"
# Keys of all resources (RFC 7643, sections 3 and 3.1), which schemas do not describe.
COMMON_KEYS = {"schemas", "id", "externalId", "meta"}

# The tester fills attributes with random values. The seed decides which of them it deactivates.
SEED = 7644

# A key of users that the specification of the API names, and that RFC 7643 does not allow as a name of an attribute.
# The tester rejects every response with an attribute that the schema does not describe. So the key is added to the
# schema, and `undescribed_keys` reports it as a finding.
FLAT_NAME = {
    "name": "name.formatted", "type": "string", "multiValued": False, "required": False, "caseExact": False,
    "mutability": "readOnly", "returned": "default", "uniqueness": "none",
}

# Findings and the reasons why they stay.
ACCEPTED = {
    "undescribed_keys: The schema does not describe the key 'name.formatted' of users":
        "The specification names this key, and RFC 7643 does not allow a dot in the name of an attribute.",
    "check_add_attribute: Failed to query resource after add on 'active': Resource ID not found":
        "The specification removes the identity of a user who is deactivated.",
    "check_replace_attribute: Failed to query resource after replace on 'active': Resource ID not found":
        "The specification removes the identity of a user who is deactivated.",
    "check_remove_attribute: Failed to remove attribute 'active': this attribute cannot be removed":
        "A provisioned user is always active.",
    "check_remove_attribute: Failed to remove attribute 'displayName': this attribute cannot be removed":
        "An account always has a name.",
    "check_replace_attribute: Attribute 'emails' was not replaced or has unexpected value":
        "The specification stores one address, which is primary even if the client sends another value of `primary`.",
}


def post(base, token, method, path, body):
    answer = requests.request(method, f"{base}/api/v4{path}", json=body, headers={"Private-Token": token}, timeout=30)
    answer.raise_for_status()
    return answer.json()


def connect(base, token):
    """Creates a group with single sign-on, and returns its URL and the headers of its provider."""
    group = post(base, token, "POST", "/groups", {"name": "Compliance", "path": "compliance"})["id"]
    url = post(base, token, "PUT", f"/groups/{group}/saml", {"enabled": True})["scim_url"]
    secret = post(base, token, "POST", f"/groups/{group}/scim_token", {})["token"]
    # Errors for other clients contain `message`, which RFC 7644 does not define.
    return url, {"Authorization": f"Bearer {secret}", "Accept": "application/scim+json"}


def discover(url, headers):
    """Returns a client with the description that the server publishes and FLAT_NAME."""
    client = SyncSCIMClient(Client(base_url=url, headers=headers))
    schemas = client.query(Schema).resources
    schemas[0].attributes.append(Attribute.model_validate(FLAT_NAME))
    types, config = client.query(ResourceType).resources, client.query(ServiceProviderConfig)
    client.provider = ScimProvider.from_discovery(schemas, types, config)
    return client


def undescribed_keys(url, headers):
    """Returns findings about keys of users that the published schema does not describe."""
    user = {
        "schemas": [USER], "externalId": "complete", "userName": "complete", "name": {"formatted": "Complete"},
        "emails": [{"type": "work", "value": "complete@example.org", "primary": True}],
    }
    answer = requests.post(f"{url}/Users", json=user, headers=headers, timeout=30)
    answer.raise_for_status()
    schema = requests.get(f"{url}/Schemas/{USER}", headers=headers, timeout=30)
    schema.raise_for_status()
    described = {attribute["name"] for attribute in schema.json()["attributes"]} | COMMON_KEYS
    keys = answer.json().keys() - described
    return {f"undescribed_keys: The schema does not describe the key '{key}' of users" for key in keys}


def finding(result):
    """Returns the check and the first line of its reason, without random values."""
    reason = (result.reason or "").splitlines()[0] if result.reason else ""
    reason = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", reason)
    return f"{result.title}: {reason}"


def main(base, token):
    random.seed(SEED)
    url, headers = connect(base, token)
    results = check_server(discover(url, headers))
    passed = [result for result in results if result.status == Status.SUCCESS]
    found = {finding(result) for result in results if result.status != Status.SUCCESS}
    found |= undescribed_keys(url, headers)
    for line in sorted(found - ACCEPTED.keys()):
        print(f"new finding: {line}")
    for line in sorted(ACCEPTED.keys() - found):
        print(f"accepted finding that no longer occurs: {line}")
    print(f"scim2-tester: {len(passed)} checks passed, {len(found)} findings, {len(ACCEPTED)} of them accepted")
    if found != ACCEPTED.keys():
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
