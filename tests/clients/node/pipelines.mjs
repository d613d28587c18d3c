// Steps through pipelines: creation, lists, cancel and retry, commit statuses, schedules and triggers.
import assert from "node:assert/strict";
import { equal, holds, lists, names, refused } from "./checks.mjs";

async function variablesOf({ api, mill }, pipeline) {
  const listed = await api.Pipelines.allVariables(mill, pipeline);
  return listed.map((each) => [each.key, each.value, each.variable_type]);
}

async function making(place) {
  const { api, his, group, alan } = place;
  const project = await api.Projects.create({
    name: "Mill",
    namespaceId: group,
    visibility: "public",
    initializeWithReadme: true,
    defaultBranch: "main",
  });
  place.mill = project.id;
  const { mill } = place;
  await api.Branches.create(mill, "topic", "main");
  await api.Tags.create(mill, "v1", "main");
  place.head = (await api.Commits.show(mill, "main")).id;
  const made = await api.Pipelines.create(mill, "main", {
    variables: [
      { key: "DEPLOY", value: "staging" },
      { key: "NOTES", value: "x\ny", variable_type: "file" },
    ],
  });
  holds(made, {
    sha: place.head,
    ref: "main",
    status: "pending",
    tag: false,
    before_sha: "0".repeat(40),
    yaml_errors: null,
    started_at: null,
    finished_at: null,
    duration: null,
    coverage: null,
    web_url: `${project.web_url}/-/pipelines/${made.id}`,
  });
  equal([made.user.username, made.detailed_status.text], ["grace", "pending"]);
  equal(await api.Pipelines.show(mill, made.id), made);
  equal(await variablesOf(place, made.id), [["DEPLOY", "staging", "env_var"], ["NOTES", "x\ny", "file"]]);
  equal(await refused(400, api.Pipelines.create(mill, "nowhere")), '{"base":["Reference not found"]}');
  await refused(403, his.Pipelines.create(mill, "main"));
  await refused(403, his.Pipelines.remove(mill, made.id));
  const topic = await his.Pipelines.create(mill, "topic");
  const tag = await api.Pipelines.create(mill, "v1");
  equal([topic.user.id, tag.tag], [alan.id, true]);
  place.made = { first: made.id, topic: topic.id, tag: tag.id };
}

async function listsOfPipelines({ api, head, mill, made: { first, topic, tag } }) {
  await lists(async (filters) => names(await api.Pipelines.all(mill, filters), "id"), [
    [{}, [tag, topic, first]],
    [{ perPage: 1 }, [tag, topic, first]],
    [{ sort: "asc" }, [first, topic, tag]],
    [{ orderBy: "user_id", sort: "desc" }, [topic, tag, first]],
    [{ ref: "topic" }, [topic]],
    [{ sha: head }, [tag, topic, first]],
    [{ sha: "0".repeat(40) }, []],
    [{ status: "pending" }, [tag, topic, first]],
    [{ status: "success" }, []],
    [{ scope: "pending" }, [tag, topic, first]],
    [{ scope: "finished" }, []],
    [{ scope: "branches" }, [topic, first]],
    [{ scope: "tags" }, [tag]],
    [{ username: "alan" }, [topic]],
    [{ yamlErrors: true }, []],
    [{ updatedAfter: "2020-01-01T00:00:00Z" }, [tag, topic, first]],
    [{ updatedBefore: "2020-01-01T00:00:00Z" }, []],
  ]);
  const page = await api.Pipelines.all(mill, { perPage: 2, page: 2, showExpanded: true });
  holds(page.paginationInfo, { total: 3, totalPages: 2, current: 2, next: null, previous: 1, perPage: 2 });
  equal(names(page.data, "id"), [first]);
}

async function endingOfPipelines({ api, his, mill, made: { first, topic } }) {
  const { Pipelines } = his;
  equal((await Pipelines.cancel(mill, topic)).status, "canceled");
  const stopped = await Pipelines.show(mill, topic);
  equal([stopped.status, stopped.finished_at !== null], ["canceled", true]);
  equal(names(await Pipelines.all(mill, { scope: "finished" }), "id"), [topic]);
  equal((await Pipelines.retry(mill, topic)).status, "pending");
  holds(await Pipelines.show(mill, topic), { status: "pending", finished_at: null });
  await refused(403, Pipelines.cancel(mill, first));
  await api.Pipelines.remove(mill, topic);
  await refused(404, Pipelines.show(mill, topic));
}

// Commit statuses of an external system and their effect on the pipeline.
async function statuses({ api, head, mill, made: { first, tag } }) {
  const report = (state, options) => api.Commits.editStatus(mill, head, state, { ref: "main", ...options });
  const status = async () => (await api.Pipelines.show(mill, first)).status;
  const made = await report("running", {
    name: "build",
    targetUrl: "https://ci.example.com/7",
    description: "Half done",
    coverage: 12.5,
  });
  holds(made, {
    sha: head,
    ref: "main",
    status: "running",
    name: "build",
    target_url: "https://ci.example.com/7",
    description: "Half done",
    coverage: 12.5,
    allow_failure: false,
    finished_at: null,
    pipeline_id: first,
  });
  equal([made.author.username, await status()], ["grace", "running"]);
  await report("failed", { context: "lint" });
  const done = await report("success", { name: "build", coverage: 80 });
  equal([done.id, done.status, done.finished_at !== null], [made.id, "success", true]);
  holds(await api.Pipelines.show(mill, first), { status: "failed", coverage: "80.00" });
  equal((await api.Pipelines.retry(mill, first)).status, "running");
  await report("success", { name: "lint" });
  equal(await status(), "success");
  await report("pending", { ref: "v1", name: "build" });
  const told = async (filters) =>
    (await api.Commits.allStatuses(mill, head, filters)).map((each) => `${each.name} ${each.status}`).sort();
  await lists(told, [
    [{ ref: "main" }, ["build success", "lint success"]],
    [{ name: "lint" }, ["lint success"]],
    [{ ref: "v1" }, ["build pending"]],
    [{ stage: "external", ref: "v1" }, ["build pending"]],
    [{ stage: "test" }, []],
    [{ ref: "main", all: true }, ["build success", "lint failed", "lint success"]],
    [{ pipelineId: tag }, ["build pending"]],
  ]);
  await refused(400, report("created"));
  const blocked = await refused(400, report("success", { targetUrl: "javascript:alert(1)" }));
  equal(blocked, '{"target_url":["is blocked: Only allowed schemes are http, https"]}');
  const read = await api.Commits.show(mill, head);
  equal([read.status, read.last_pipeline.id], ["pending", tag]);
}

async function triggers(place) {
  const { api, his, root, head, mill } = place;
  const { PipelineTriggerTokens } = api;
  const made = await PipelineTriggerTokens.create(mill, "nightly");
  holds(made, { description: "nightly", last_used: null });
  equal(made.owner.username, "grace");
  equal(await PipelineTriggerTokens.show(mill, made.id), made);
  const others = (await root.PipelineTriggerTokens.show(mill, made.id)).token;
  assert.ok(made.token.startsWith(others) && others.length < made.token.length, others);
  equal((await PipelineTriggerTokens.edit(mill, made.id, { description: "hourly" })).description, "hourly");
  equal(names(await PipelineTriggerTokens.all(mill), "description"), ["hourly"]);
  await refused(403, his.PipelineTriggerTokens.all(mill));
  // The client sends the token and the ref in the query, and the variables, if any, as a form.
  const started = await PipelineTriggerTokens.trigger(mill, "main", made.token, { variables: { WHO: "nobody" } });
  holds(started, { ref: "main", sha: head, status: "pending" });
  equal(await variablesOf(place, started.id), [["WHO", "nobody", "env_var"]]);
  const plain = await his.PipelineTriggerTokens.trigger(mill, "topic", made.token);
  equal([plain.ref, plain.user.username, await variablesOf(place, plain.id)], ["topic", "grace", []]);
  assert.ok((await PipelineTriggerTokens.show(mill, made.id)).last_used);
  await refused(404, PipelineTriggerTokens.trigger(mill, "main", "wrong"));
  await refused(400, PipelineTriggerTokens.trigger(mill, "nowhere", made.token));
  await PipelineTriggerTokens.remove(mill, made.id);
  await refused(404, PipelineTriggerTokens.show(mill, made.id));
  await refused(404, PipelineTriggerTokens.trigger(mill, "main", made.token));
}

async function schedules(place) {
  const { api, his, head, mill } = place;
  const { PipelineSchedules, PipelineScheduleVariables } = his;
  const made = await PipelineSchedules.create(mill, "Nightly", "topic", "30 2 * * 1-5", {
    cronTimezone: "Asia/Tokyo",
    active: false,
  });
  holds(made, {
    description: "Nightly",
    ref: "topic",
    cron: "30 2 * * 1-5",
    cron_timezone: "Asia/Tokyo",
    active: false,
    last_pipeline: null,
    variables: [],
  });
  // Tokyo is always nine hours ahead of UTC.
  equal([made.owner.username, made.next_run_at.slice(11)], ["alan", "17:30:00.000Z"]);
  const edited = await PipelineSchedules.edit(mill, made.id, { cron: "0 0 1 1 *", cronTimezone: "UTC", active: true });
  const year = new Date().getUTCFullYear() + 1;
  holds(edited, { active: true, next_run_at: `${year}-01-01T00:00:00.000Z` });
  await lists(async (filters) => names(await PipelineSchedules.all(mill, filters), "id"), [
    [{}, [made.id]],
    [{ scope: "active" }, [made.id]],
    [{ scope: "inactive" }, []],
  ]);
  const variable = await PipelineScheduleVariables.create(mill, made.id, "DEPLOY", "staging");
  equal(variable, { variable_type: "env_var", key: "DEPLOY", value: "staging" });
  const changed = await PipelineScheduleVariables.edit(mill, made.id, "DEPLOY", "production", { variableType: "file" });
  equal(changed, { variable_type: "file", key: "DEPLOY", value: "production" });
  await PipelineScheduleVariables.create(mill, made.id, "GONE", "x");
  await PipelineScheduleVariables.remove(mill, made.id, "GONE");
  equal((await PipelineSchedules.show(mill, made.id)).variables, [changed]);
  equal(await PipelineSchedules.run(mill, made.id), { message: "201 Created" });
  const last = (await PipelineSchedules.show(mill, made.id)).last_pipeline;
  holds(last, { ref: "topic", status: "pending", sha: head });
  equal(await variablesOf(place, last.id), [["DEPLOY", "production", "file"]]);
  for (const [field, value] of [["cron", "0 0 31 2 *"], ["cron", "@daily"], ["cron_timezone", "Mars/Base"]]) {
    const text = await refused(400, PipelineSchedules.edit(mill, made.id, { [field]: value }));
    equal(text, `{"${field}":[" is invalid syntax"]}`);
  }
  equal((await api.PipelineSchedules.takeOwnership(mill, made.id)).owner.username, "grace");
  await refused(403, PipelineSchedules.remove(mill, made.id));
  await api.PipelineSchedules.remove(mill, made.id);
  await refused(404, PipelineSchedules.show(mill, made.id));
}

async function theEndOfPipelines({ api, head, mill }) {
  for (const { id } of await api.Pipelines.all(mill)) await api.Pipelines.remove(mill, id);
  equal([await api.Pipelines.all(mill), await api.Commits.allStatuses(mill, head)], [[], []]);
  await api.Projects.remove(mill);
}

export const pipelines = [
  making, listsOfPipelines, endingOfPipelines, statuses, triggers, schedules, theEndOfPipelines,
];
