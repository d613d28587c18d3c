"""Reads feature flags with the unmodified SDK `UnleashClient`."""

import logging

from UnleashClient import UnleashClient
from UnleashClient.cache import FileCache

from checks import equal, until


class Flags:
    """Takes from `walk`: ada and her group of engines."""

    STEPS = ["flags_of_unleash_client"]

    def __init__(self, walk):
        self.walk = walk
        self.project = walk.her.projects.create({"name": "Flagged", "path": "flagged", "namespace_id": walk.engines.id})

    def flag(self, name, *strategies, active=True):
        data = {"name": name, "active": active, "version": "new_version_flag", "strategies": list(strategies)}
        self.walk.her.http_post(f"/projects/{self.project.id}/feature_flags", post_data=data)

    def flags_of_unleash_client(self):
        everywhere = {"name": "default", "scopes": [{"environment_scope": "*"}]}
        of_ada = {"name": "userWithId", "parameters": {"userIds": "ada,bob"}}
        self.flag("everyone", everywhere)
        self.flag("staging-only", {"name": "default", "scopes": [{"environment_scope": "staging"}]})
        self.flag("of-some", of_ada)
        self.flag("inactive", everywhere, active=False)
        shown = self.walk.her.http_get(f"/projects/{self.project.id}/feature_flags_client")
        client = UnleashClient(
            url=shown["api_url"], app_name="production", instance_id=shown["instance_id"], refresh_interval=1,
            metrics_interval=1, cache=FileCache("walk"), verbose_log_level=logging.ERROR,
        )
        with client:
            until("the first features", lambda: client.is_enabled("everyone"))
            equal(client.is_enabled("staging-only"), False)
            equal(client.is_enabled("inactive"), False)
            equal([client.is_enabled("of-some", {"userId": user}) for user in ["ada", "eve"]], [True, False])
            self.walk.her.http_put(f"/projects/{self.project.id}/feature_flags/everyone", post_data={"active": False})
            until("changed features", lambda: not client.is_enabled("everyone"))
