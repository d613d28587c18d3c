"""Runs scim2-tester against the SCIM API of a group, with the strictest settings.

Usage: scim_compliance.py BASE_URL TOKEN

Fails on a finding that is not in ACCEPTED, and on an accepted finding that no longer occurs.
"""

import random
import re
import sys

import requests
from httpx2 import Client
from scim2_client.engines.httpx2 import SyncSCIMClient
from scim2_models import Attribute, ResourceType, Schema, ScimProvider, ServiceProviderConfig
from scim2_tester import Status, check_server

# The tester fills attributes with random values. The seed decides which of them it deactivates.
SEED = 7644

# A key of users that the specification of the API names, and that RFC 7643 does not allow as a name of an attribute.
# The tester rejects attributes that the schema does not describe, so this one is added to the schema.
FLAT_NAME = {
    "name": "name.formatted", "type": "string", "multiValued": False, "required": False, "caseExact": False,
    "mutability": "readOnly", "returned": "default", "uniqueness": "none",
}

# Findings and the reasons why they stay.
ACCEPTED = {
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
    """Creates a group with single sign-on, and returns a client with the description that the server publishes."""
    group = post(base, token, "POST", "/groups", {"name": "Compliance", "path": "compliance"})["id"]
    url = post(base, token, "PUT", f"/groups/{group}/saml", {"enabled": True})["scim_url"]
    secret = post(base, token, "POST", f"/groups/{group}/scim_token", {})["token"]
    # Errors for other clients contain `message`, which RFC 7644 does not define.
    headers = {"Authorization": f"Bearer {secret}", "Accept": "application/scim+json"}
    client = SyncSCIMClient(Client(base_url=url, headers=headers))
    schemas = client.query(Schema).resources
    schemas[0].attributes.append(Attribute.model_validate(FLAT_NAME))
    types, config = client.query(ResourceType).resources, client.query(ServiceProviderConfig)
    client.provider = ScimProvider.from_discovery(schemas, types, config)
    return client


def finding(result):
    """Returns the check and the first line of its reason, without random values."""
    reason = (result.reason or "").splitlines()[0] if result.reason else ""
    reason = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", reason)
    return f"{result.title}: {reason}"


def main(base, token):
    random.seed(SEED)
    results = check_server(connect(base, token))
    passed = [result for result in results if result.status == Status.SUCCESS]
    found = {finding(result) for result in results if result.status != Status.SUCCESS}
    for line in sorted(found - ACCEPTED.keys()):
        print(f"new finding: {line}")
    for line in sorted(ACCEPTED.keys() - found):
        print(f"accepted finding that no longer occurs: {line}")
    print(f"scim2-tester: {len(passed)} checks passed, {len(found)} findings, {len(ACCEPTED)} of them accepted")
    if found != ACCEPTED.keys():
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
