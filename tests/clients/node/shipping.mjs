// Steps through environments and deployments with their merge requests.
import assert from "node:assert/strict";
import { equal, holds, lists, names, refused, until } from "./checks.mjs";

async function environments(place) {
  const { api, group } = place;
  const { Environments } = api;
  const project = await api.Projects.create({
    name: "Ship",
    namespaceId: group,
    visibility: "public",
    initializeWithReadme: true,
    defaultBranch: "main",
  });
  place.ship = project.id;
  const { ship } = place;
  const made = await Environments.create(ship, "review/topic", { externalUrl: "https://review.example.com" });
  holds(made, { name: "review/topic", external_url: "https://review.example.com", state: "available" });
  assert.match(made.slug, /^review-topic-[a-z0-9]{6}$/);
  equal((await Environments.edit(ship, made.id, { externalUrl: "https://topic.example.com" })).external_url, "https://topic.example.com");
  equal((await Environments.show(ship, made.id)).last_deployment, null);
  await Environments.create(ship, "staging");
  await lists(async (filters) => names(await Environments.all(ship, filters), "name"), [
    [{}, ["review/topic", "staging"]],
    [{ name: "staging" }, ["staging"]],
    [{ search: "TOPIC" }, ["review/topic"]],
    [{ states: "stopped" }, []],
  ]);
  await refused(400, Environments.create(ship, "staging"));
  await refused(403, Environments.remove(ship, made.id));
  equal((await Environments.stop(ship, made.id)).state, "stopped");
  await Environments.remove(ship, made.id);
  await refused(404, Environments.show(ship, made.id));
}

async function deployments({ api, ship }) {
  const { Commits, Deployments, MergeRequests } = api;
  const sha = (await Commits.show(ship, "main")).id;
  const first = await Deployments.create(ship, "production", sha, "main", false, { status: "running" });
  holds(first, { iid: 1, sha, ref: "main", status: "running", deployable: null });
  equal([first.environment.name, first.user.username], ["production", "grace"]);
  equal((await Deployments.edit(ship, first.id, "success")).status, "success");
  equal(await Deployments.allMergeRequests(ship, first.id), []);
  await refused(400, Deployments.create(ship, "production", "0".repeat(40), "main", false, { status: "success" }));
  await Commits.create(ship, "topic", "Load", [{ action: "create", filePath: "cargo.txt", content: "coal" }], {
    startBranch: "main",
  });
  const { iid } = await MergeRequests.create(ship, "topic", "main", "Load");
  await MergeRequests.merge(ship, iid);
  const head = (await Commits.show(ship, "main")).id;
  const second = await Deployments.create(ship, "production", head, "main", false, { status: "success" });
  await until("the shipping", async () => (await Deployments.allMergeRequests(ship, second.id)).length > 0);
  equal(names(await Deployments.allMergeRequests(ship, second.id, { state: "merged" }), "iid"), [iid]);
  equal((await Deployments.show(ship, second.id)).status, "success");
  await lists(async (filters) => names(await Deployments.all(ship, filters), "iid"), [
    [{}, [1, 2]],
    [{ orderBy: "created_at", sort: "desc" }, [2, 1]],
    [{ environment: "staging" }, []],
    [{ status: "success" }, [1, 2]],
  ]);
}

async function vulnerabilities({ api, root, ship }) {
  const identifiers = [{ type: "cwe", name: "CWE-79", value: "79" }];
  const found = { category: "sast", name: "The hull leaks", severity: "High", identifiers, location: { file: "cargo.txt" } };
  const { requester } = api.Projects;
  const answer = await requester.post(`projects/${ship}/vulnerability_reports`, {
    body: { version: "15.0.0", vulnerabilities: [found] },
  });
  equal(answer.body, { created: 1, updated: 0, unchanged: 0 });
  const [one] = await root.ProjectVulnerabilities.all(ship);
  holds(one, { title: "The hull leaks", severity: "high", state: "opened", report_type: "sast" });
  await api.Projects.remove(ship);
}

export const shipping = [environments, deployments, vulnerabilities];
