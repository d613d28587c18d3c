"""Walks through environments, deployments with their merge requests, releases, clusters and vulnerabilities."""

from checks import equal, holds, refused, until


class Shipping:
    """Takes from `walk`: ada, who owns the group of engines, bob, who is not a member, and the administrator."""

    def __init__(self, walk):
        self.walk = walk
        self.project = walk.her.projects.create({
            "name": "Ship", "namespace_id": walk.engines.id, "visibility": "public", "initialize_with_readme": True,
            "default_branch": "main",
        })

    def environments(self):
        environments = self.project.environments
        made = environments.create({"name": "review/topic", "external_url": "https://review.example.com"})
        holds(made, name="review/topic", external_url="https://review.example.com", state="available")
        assert made.slug.startswith("review-topic-"), made.slug
        made.external_url = "https://topic.example.com"
        made.save()
        found = environments.get(made.id)
        equal((found.external_url, found.last_deployment), ("https://topic.example.com", None))
        environments.create({"name": "staging"})
        for filters, expected in [
            ({}, ["review/topic", "staging"]), ({"name": "staging"}, ["staging"]), ({"search": "TOPIC"}, ["review/topic"]),
            ({"states": "stopped"}, []),
        ]:
            equal([each.name for each in environments.list(get_all=True, **filters)], expected)
        refused(400, environments.list, name="staging", search="stag")
        refused(400, environments.create, {"name": "staging"})
        refused(403, made.delete)
        made.stop()
        equal([each.name for each in environments.list(states="stopped")], ["review/topic"])
        made.delete()
        refused(404, environments.get, made.id)
        refused(403, self.walk.him.projects.get(self.project.id).environments.list)

    def releases(self):
        project, releases = self.project, self.project.releases
        equal(releases.list(), [])
        project.milestones.create({"title": "v1"})
        link = {"name": "Package", "url": "https://example.com/a.deb", "direct_asset_path": "/a.deb", "link_type": "package"}
        made = releases.create({
            "tag_name": "v1.0", "ref": "main", "tag_message": "First", "name": "First", "description": "## Notes",
            "milestones": ["v1"], "assets": {"links": [link]},
        })
        holds(made, tag_name="v1.0", name="First", description="## Notes", upcoming_release=False)
        equal((made.commit["id"], made.author["username"]), (project.commits.get("main").id, "ada"))
        equal(([each["title"] for each in made.milestones], made.assets["links"][0]["name"]), (["v1"], "Package"))
        equal(project.tags.get("v1.0").release, {"tag_name": "v1.0", "description": "## Notes"})
        refused(409, releases.create, {"tag_name": "v1.0", "description": "Again"})
        refused(422, releases.create, {"tag_name": "v2.0", "description": "Without ref"})
        found = releases.get("v1.0")
        found.description = "More"
        found.save()
        equal([each.description for each in releases.list(get_all=True)], ["More"])
        links = found.links
        added = links.create({"name": "Image", "url": "https://example.com/image", "link_type": "image"})
        refused(400, links.create, {"name": "Image", "url": "https://example.com/other"})
        equal([each.name for each in links.list(get_all=True)], ["Image", "Package"])
        added.link_type = "runbook"
        added.name = "Runbook"
        added.save()
        equal(links.get(added.id).link_type, "runbook")
        added.delete()
        equal([each["name"] for each in releases.get("v1.0").assets["links"]], ["Package"])
        refused(403, self.walk.him.projects.get(project.id).releases.create, {"tag_name": "v2.0", "ref": "main"})
        releases.delete("v1.0")
        refused(404, releases.get, "v1.0")
        equal(project.tags.get("v1.0").release, None)

    def deployments(self):
        project, deployments = self.project, self.project.deployments
        sha = project.commits.get("main").id
        new = {"environment": "production", "sha": sha, "ref": "main", "tag": False}
        first = deployments.create({**new, "status": "running"})
        holds(first, iid=1, sha=sha, ref="main", status="running", deployable=None)
        equal((first.environment["name"], first.user["username"]), ("production", "ada"))
        first.status = "success"
        first.save()
        equal((deployments.get(first.id).status, first.mergerequests.list()), ("success", []))
        refused(400, deployments.create, {**new, "sha": "0" * 40, "status": "success"})
        project.files.create({
            "file_path": "cargo.txt", "branch": "topic", "start_branch": "main", "content": "coal", "commit_message": "Load",
        })
        proposed = project.mergerequests.create({"source_branch": "topic", "target_branch": "main", "title": "Load"})
        proposed.merge()
        # A deployment may belong to a job and then follows the status of the job.
        head = project.commits.get("main")
        job = head.statuses.create({"state": "running", "name": "deploy", "ref": "main"})
        second = deployments.create({**new, "sha": head.id, "status": "created", "job_id": job.id})
        equal((second.status, second.deployable["id"], second.deployable["name"]), ("running", job.id, "deploy"))
        second.status = "failed"
        refused(403, second.save)
        head.statuses.create({"state": "success", "name": "deploy", "ref": "main"})
        equal(deployments.get(second.id).status, "success")
        until("the shipping", lambda: deployments.get(second.id).mergerequests.list())
        equal([each.iid for each in second.mergerequests.list(state="merged")], [proposed.iid])
        for filters, expected in [
            ({}, [1, 2]), ({"sort": "desc", "order_by": "created_at"}, [2, 1]), ({"environment": "production"}, [1, 2]),
            ({"environment": "staging"}, []), ({"status": "success"}, [1, 2]), ({"status": "failed"}, []),
        ]:
            equal([each.iid for each in deployments.list(get_all=True, **filters)], expected)
        production = project.environments.list(name="production")[0]
        equal(project.environments.get(production.id).last_deployment["iid"], 2)
        self.production = production

    def clusters(self):
        platform = {"api_url": "https://kubernetes.example.com", "token": "a secret of the cluster"}
        made = self.project.clusters.create({"name": "sea", "platform_kubernetes_attributes": platform})
        holds(made, name="sea", provider_type="user", platform_type="kubernetes", environment_scope="*")
        equal(made.platform_kubernetes["api_url"], "https://kubernetes.example.com")
        assert "secret" not in str(made.attributes), made.attributes
        equal([each.id for each in self.project.clusters.list()], [made.id])
        equal(self.project.clusters.get(made.id).attributes, made.attributes)
        self.cluster = made

    def annotations(self):
        """The client has no class for vulnerabilities. The feature gate is closed at first."""
        her, root = self.walk.her, self.walk.root
        mark = {
            "dashboard_path": "config/prometheus/common_metrics.yml", "starting_at": "2026-01-31T12:00:00Z", "description": "Sailed",
        }
        paths = [
            f"/{kind}/{id}/metrics_dashboard/annotations"
            for kind, id in [("environments", self.production.id), ("clusters", self.cluster.id)]
        ]
        refused(404, her.http_post, paths[0], post_data=mark)
        root.http_post("/features/metrics_dashboard_annotations", post_data={"value": True})
        told = [her.http_post(path, post_data=mark) for path in paths]
        equal([(each["environment_id"], each["cluster_id"]) for each in told], [
            (self.production.id, None), (None, self.cluster.id)])
        root.http_delete("/features/metrics_dashboard_annotations")
        self.cluster.delete()
        refused(404, self.project.clusters.get, self.cluster.id)

    def vulnerabilities(self):
        """The client has no class for this resource."""
        her, path = self.walk.her, f"/projects/{self.project.id}"
        place = {"physicalLocation": {"artifactLocation": {"uri": "cargo.txt"}, "region": {"startLine": 1}}}
        rule = {"id": "LEAK", "shortDescription": {"text": "The hull leaks"}, "properties": {"security-severity": "8.1"}}
        report = {"version": "2.1.0", "runs": [{
            "tool": {"driver": {"name": "caulker", "rules": [rule]}},
            "results": [{"ruleId": "LEAK", "message": {"text": "Water"}, "locations": [place]}],
        }]}
        for counted in [(1, 0, 0), (0, 0, 1)]:
            told = her.http_post(f"{path}/vulnerability_reports", post_data=report)
            equal((told["created"], told["updated"], told["unchanged"]), counted)
        [found] = her.http_list(f"{path}/vulnerabilities")
        equal((found["title"], found["severity"], found["state"]), ("The hull leaks", "high", "opened"))
        one = f"/vulnerabilities/{found['id']}"
        for decision, state in [("confirm", "confirmed"), ("dismiss", "closed"), ("resolve", "resolved")]:
            equal(her.http_post(f"{one}/{decision}")["state"], state)
        # The client raises an error on 304.
        refused(304, her.http_post, f"{one}/resolve")
        equal(her.http_get(one)["state"], "resolved")
        refused(403, self.walk.him.http_get, one)
        refused(401, self.walk.anonymous.http_get, one)

    def the_rest(self):
        self.project.delete()

    STEPS = ["environments", "releases", "deployments", "clusters", "annotations", "vulnerabilities", "the_rest"]
