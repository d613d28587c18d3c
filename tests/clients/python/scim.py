"""Provisions members of a group over HTTP with the requests of Entra, Okta and OneLogin."""

import requests

from checks import equal, refused

USER = "urn:ietf:params:scim:schemas:core:2.0:User"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
TYPE = "application/scim+json"


class Scim:
    """Takes from `walk`: ada, who creates a group."""

    def __init__(self, walk):
        self.walk = walk
        self.group = walk.her.groups.create({"name": "Provisioned", "path": "provisioned"})
        self.saml = f"/groups/{self.group.id}/saml"

    def call(self, method, path, status, body=None, token=None, **parameters):
        answer = requests.request(
            method, f"{self.walk.base}/api/scim/v2/groups/provisioned{path}", json=body, params=parameters, timeout=30,
            headers={"Authorization": f"Bearer {token or self.token}", "Content-Type": TYPE})
        equal((method, path, answer.status_code), (method, path, status))
        if not answer.content:
            return None
        equal(answer.headers["Content-Type"].split(";")[0], TYPE)
        return answer.json()

    def found(self, filter):
        return [user["id"] for user in self.call("GET", "/Users", 200, filter=filter)["Resources"]]

    def patch(self, uid, *operations):
        self.call("PATCH", f"/Users/{uid}", 204, {"schemas": [PATCH], "Operations": list(operations)})

    def switch(self):
        her = self.walk.her
        equal(her.http_get(self.saml)["enabled"], False)
        refused(404, self.walk.him.http_get, self.saml)
        equal(her.http_put(self.saml, post_data={"enabled": True})["enabled"], True)
        self.token = her.http_post(f"/groups/{self.group.id}/scim_token")["token"]

    def discovery(self):
        equal(self.call("GET", "/ServiceProviderConfig", 200)["patch"], {"supported": True})
        equal(self.call("GET", "/ResourceTypes", 200)["Resources"][0]["schema"], USER)
        equal(self.call("GET", f"/Schemas/{USER}", 200)["id"], USER)
        equal(self.call("GET", "/Users", 401, token="wrong")["message"], "401 Unauthorized")

    def provision(self):
        # Providers first check whether the user exists.
        equal(self.found('userName eq "grace@example.net"'), [])
        user = self.call("POST", "/Users", 201, {
            "schemas": [USER], "externalId": "0b1f/grace", "userName": "grace@example.net", "active": True,
            "name": {"formatted": "Grace Hopper", "givenName": "Grace", "familyName": "Hopper"},
            "emails": [{"primary": True, "type": "work", "value": "grace@example.net"}], "meta": {"resourceType": "User"},
        })
        equal((user["id"], user["userName"], user["name.formatted"]), ("0b1f/grace", "grace", "Grace Hopper"))
        for filter in ['id eq "0b1f/grace"', 'externalId eq "0B1F/GRACE"', 'userName eq "grace@example.net"']:
            equal(self.found(filter), ["0b1f/grace"])
        error = self.call("GET", "/Users", 400, filter='userName co "grace"')
        equal((error["schemas"], error["scimType"]), (["urn:ietf:params:scim:api:messages:2.0:Error"], "invalidFilter"))
        member = [each for each in self.group.members.list() if each.username == "grace"][0]
        equal((member.access_level, member.group_saml_identity["extern_uid"]), (10, "0b1f/grace"))

    def change(self):
        uid = "0b1f%2Fgrace"
        self.patch(uid, {"op": "Replace", "path": 'emails[type eq "work"].value', "value": "hopper@example.net"},
                   {"op": "Add", "path": "displayName", "value": "Rear Admiral"}, {"op": "Replace", "path": "active", "value": "True"})
        self.patch(uid, {"op": "replace", "value": {"userName": "hopper@example.net"}})
        self.patch(uid, {"op": "replace", "path": "active", "value": True})
        user = self.call("GET", f"/Users/{uid}", 200)
        equal((user["userName"], user["displayName"], user["emails"][0]["value"]),
              ("hopper", "Rear Admiral", "hopper@example.net"))
        equal([each.username for each in self.walk.root.users.list(username="hopper")], ["hopper"])

    def take_out(self):
        uid = "0b1f%2Fgrace"
        self.patch(uid, {"op": "Replace", "path": "active", "value": "False"})
        equal(self.call("GET", f"/Users/{uid}", 404)["detail"], "Resource 0b1f/grace not found")
        self.call("DELETE", f"/Users/{uid}", 404)
        equal([each.username for each in self.group.members.list()], ["ada"])
        self.walk.her.http_put(self.saml, post_data={"enabled": False})
        equal(self.call("GET", "/Users", 403)["message"], "403 Forbidden - Group SAML not enabled.")
        self.walk.her.http_delete(f"/groups/{self.group.id}/scim_token")
        self.call("GET", "/Users", 401)
        self.walk.root.users.delete(self.walk.root.users.list(username="hopper")[0].id)
        self.group.delete()

    STEPS = ["switch", "discovery", "provision", "change", "take_out"]
