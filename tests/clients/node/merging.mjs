// Steps through merge requests: from a branch and from a fork, their commits and notes, and merging.
import assert from "node:assert/strict";
import { equal, holds, lists, names, refused, until } from "./checks.mjs";
import { awards, notes, subscriptions, times } from "./things.mjs";

// Commits a file to a branch, which is created from main if it is new.
function commit(client, project, branch, filePath, content = "x\n", options = { startBranch: "main" }) {
  return client.Commits.create(project, branch, `Add ${filePath}`, [{ action: "create", filePath, content }], options);
}

// Creates a merge request by alan from a new branch that adds one file, and returns its IID.
async function propose({ his, project }, branch, content, title = `Take ${branch}`) {
  await commit(his, project, branch, content ? "same.txt" : `${branch}.txt`, content);
  return (await his.MergeRequests.create(project, branch, "main", title)).iid;
}

async function hasBranch({ api, project }, name) {
  return (await api.Branches.all(project, { search: `^${name}$` })).length === 1;
}

async function opening(place) {
  const { api, his, project, grace, milestone } = place;
  const head = await commit(his, project, "cards", "cards.txt");
  const made = await his.MergeRequests.create(project, "cards", "main", "Better cards", {
    description: "Closes #1\n- [x] cut",
    labels: "bug,urgent",
    milestoneId: milestone,
    assigneeIds: [grace.id],
    squash: true,
    removeSourceBranch: true,
  });
  holds(made, {
    iid: 1,
    project_id: project,
    source_project_id: project,
    target_project_id: project,
    state: "opened",
    source_branch: "cards",
    target_branch: "main",
    labels: ["bug", "urgent"],
    squash: true,
    force_remove_source_branch: true,
    draft: false,
    sha: head.id,
    merge_commit_sha: null,
    merged_at: null,
    subscribed: true,
    references: { short: "!1", relative: "!1", full: "codes/compiler!1" },
    task_completion_status: { count: 1, completed_count: 1 },
  });
  equal([made.author.username, made.assignees[0].username, made.milestone.title], ["alan", "grace", "v3"]);
  const read = await api.MergeRequests.show(project, 1, { includeDivergedCommitsCount: true, includeRebaseInProgress: true });
  holds(read, {
    merge_status: "can_be_merged",
    has_conflicts: false,
    changes_count: "1",
    user: { can_merge: true },
    diverged_commits_count: 0,
    rebase_in_progress: false,
  });
  equal([read.diff_refs.head_sha, read.diff_refs.base_sha], [head.id, head.parent_ids[0]]);
  await refused(409, api.MergeRequests.create(project, "cards", "main", "Twice"));
  await refused(400, api.MergeRequests.create(project, "no-such", "main", "Nothing"));
  equal(await propose(place, "oil", undefined, "Draft: Oil the wheels"), 2);
}

async function listsOfMergeRequests({ api, his, project, group, grace, alan, milestone }) {
  const inOrder = { orderBy: "created_at", sort: "asc" };
  const iids = async (filters, client = api) => names(await client.MergeRequests.all({ ...inOrder, ...filters }), "iid");
  await lists((filters) => iids({ projectId: project, ...filters }), [
    [{}, [1, 2]],
    [{ perPage: 1 }, [1, 2]],
    [{ state: "opened" }, [1, 2]],
    [{ state: "merged" }, []],
    [{ labels: "bug" }, [1]],
    [{ labels: "None" }, [2]],
    [{ milestone: "v3" }, [1]],
    [{ assigneeId: grace.id }, [1]],
    [{ assigneeId: "None" }, [2]],
    [{ authorId: alan.id }, [1, 2]],
    [{ authorUsername: "grace" }, []],
    [{ scope: "assigned_to_me" }, [1]],
    [{ sourceBranch: "oil" }, [2]],
    [{ targetBranch: "oil" }, []],
    [{ search: "WHEELS" }, [2]],
    [{ search: "closes", in: "title" }, []],
    [{ wip: "yes" }, [2]],
    [{ wip: "no" }, [1]],
    [{ iids: [2] }, [2]],
    [{ not: { labels: "urgent" } }, [2]],
    [{ myReactionEmoji: "Any" }, []],
    [{ createdAfter: "2020-01-01T00:00:00Z" }, [1, 2]],
    [{ updatedBefore: "2020-01-01T00:00:00Z" }, []],
  ]);
  equal(await iids({ groupId: group }), [1, 2]);
  equal(await iids({}, his), [1, 2]);
  equal(await iids({}), []);
  equal(await iids({ scope: "all", authorId: alan.id }), [1, 2]);
  const page = await api.MergeRequests.all({ projectId: project, perPage: 1, page: 2, showExpanded: true });
  holds(page.paginationInfo, { total: 2, totalPages: 2, current: 2, next: null, previous: 1, perPage: 1 });
  const [detailed] = await api.MergeRequests.all({ projectId: project, labels: "bug", withLabelsDetails: true });
  equal(names(detailed.labels, "name"), ["bug", "urgent"]);
  equal(names(await api.ProjectMilestones.allAssignedMergeRequests(project, milestone), "iid"), [1]);
}

async function whatTheyBring({ api, his, project }) {
  const { Issues, MergeRequests } = api;
  const second = await commit(his, project, "cards", "holes.txt", "o\n", {});
  equal(names(await MergeRequests.allCommits(project, 1)), ["Add holes.txt", "Add cards.txt"]);
  const changed = await MergeRequests.showChanges(project, 1);
  holds(changed, { iid: 1, sha: second.id, overflow: false });
  equal(changed.changes.map((each) => [each.new_path, each.new_file, each.diff]), [
    ["cards.txt", true, "@@ -0,0 +1 @@\n+x\n"],
    ["holes.txt", true, "@@ -0,0 +1 @@\n+o\n"],
  ]);
  equal(names(await MergeRequests.allIssuesClosed(project, 1), "iid"), [1]);
  equal(names(await Issues.allClosedByMergeRequestst(project, 1), "iid"), [1]);
  equal(names(await Issues.allRelatedMergeRequests(project, 1), "iid"), [1]);
  equal((await Issues.show(1, { projectId: project })).merge_requests_count, 1);
  equal(names(await MergeRequests.allParticipants(project, 1), "username").sort(), ["alan", "grace"]);
}

async function whatIsSaid({ api, his, project }) {
  await times(api.MergeRequests, "setTimeEstimate", project, 1);
  await subscriptions(api.MergeRequests, project, 2);
  const note = await notes(his.MergeRequestNotes, "MergeRequest", "alan", project, 1);
  await awards(his.MergeRequestAwardEmojis, "MergeRequest", "alan", project, 1);
  await awards(his.MergeRequestNoteAwardEmojis, "Note", "alan", project, 1, note.id);
  await api.MergeRequestAwardEmojis.award(project, 1, "thumbsup");
  await refused(404, his.MergeRequestAwardEmojis.award(project, 1, "thumbsup"));
  holds(await api.MergeRequests.show(project, 1), { upvotes: 1, user_notes_count: 1 });
}

async function editing({ api, his, project, milestone }) {
  const { MergeRequests } = api;
  equal((await MergeRequests.show(project, 2)).draft, true);
  await refused(405, MergeRequests.merge(project, 2));
  const edited = await MergeRequests.edit(project, 2, {
    title: "Oil all wheels",
    description: "Slowly",
    labels: "loud",
    discussionLocked: true,
    milestoneId: milestone,
    squash: true,
  });
  holds(edited, {
    title: "Oil all wheels",
    description: "Slowly",
    draft: false,
    labels: ["loud"],
    squash: true,
    discussion_locked: true,
  });
  equal(edited.milestone.title, "v3");
  const closed = await MergeRequests.edit(project, 2, { stateEvent: "close" });
  equal([closed.state, closed.closed_by.username], ["closed", "grace"]);
  await refused(405, MergeRequests.merge(project, 2));
  equal((await MergeRequests.edit(project, 2, { stateEvent: "reopen" })).state, "opened");
  await refused(403, his.MergeRequests.remove(project, 2));
  await MergeRequests.remove(project, 2);
  await refused(404, MergeRequests.show(project, 2));
}

// The two commits are squashed, the branch is deleted and the issue is closed.
async function squashing(place) {
  const { api, project } = place;
  await refused(409, api.MergeRequests.merge(project, 1, { sha: "0".repeat(40) }));
  const merged = await api.MergeRequests.merge(project, 1, {
    mergeCommitMessage: "Merge the cards",
    squashCommitMessage: "All of the cards",
    shouldRemoveSourceBranch: true,
  });
  equal([merged.state, merged.merged_by.username], ["merged", "grace"]);
  const merge = await api.Commits.show(project, merged.merge_commit_sha);
  const squashed = await api.Commits.show(project, merged.squash_commit_sha);
  equal([merge.message, squashed.message, merge.parent_ids[1]], ["Merge the cards", "All of the cards", squashed.id]);
  equal((await api.Branches.show(project, "main")).commit.id, merge.id);
  await until("the removal of the branch", async () => !(await hasBranch(place, "cards")));
  await until("the end of the issue", async () => (await api.Issues.show(1, { projectId: project })).state === "closed");
  await refused(405, api.MergeRequests.merge(project, 1));
}

// A Developer cannot merge into the protected default branch. The source branch is kept on request.
async function whoMayMerge(place) {
  const { api, his, project } = place;
  const iid = await propose(place, "wheels");
  equal((await his.MergeRequests.show(project, iid)).user, { can_merge: false });
  await refused(401, his.MergeRequests.merge(project, iid));
  const merged = await api.MergeRequests.accept(project, iid, { shouldRemoveSourceBranch: false });
  equal([merged.state, merged.squash_commit_sha, await hasBranch(place, "wheels")], ["merged", null, true]);
}

// A fast-forward merge requires a rebase first.
async function rebasing(place) {
  const { api, project } = place;
  const diverged = { includeDivergedCommitsCount: true, includeRebaseInProgress: true };
  await api.Projects.edit(project, { mergeMethod: "ff" });
  const [late, early] = [await propose(place, "late"), await propose(place, "early")];
  equal((await api.MergeRequests.merge(project, early)).merge_commit_sha, null);
  const before = await api.MergeRequests.show(project, late, diverged);
  equal(before.diverged_commits_count, 1);
  await refused(406, api.MergeRequests.merge(project, late));
  await api.MergeRequests.rebase(project, late);
  await until("the rebase", async () => !(await api.MergeRequests.show(project, late, diverged)).rebase_in_progress);
  const rebased = await api.MergeRequests.show(project, late, diverged);
  holds(rebased, { merge_error: null, diverged_commits_count: 0 });
  assert.notEqual(rebased.sha, before.sha, "the head has not changed");
  equal((await api.MergeRequests.merge(project, late, { shouldRemoveSourceBranch: true })).state, "merged");
  equal((await api.Branches.show(project, "main")).commit.id, rebased.sha);
  await api.Projects.edit(project, { mergeMethod: "merge" });
}

async function conflicts(place) {
  const { api, project } = place;
  const [first, second] = [await propose(place, "one", "1\n"), await propose(place, "other", "2\n")];
  await api.MergeRequests.merge(project, first);
  holds(await api.MergeRequests.show(project, second), { merge_status: "cannot_be_merged", has_conflicts: true });
  await refused(406, api.MergeRequests.merge(project, second));
}

// Without pipelines, an automatic merge stays pending until it is canceled.
async function waiting(place) {
  const { api, project } = place;
  await api.Projects.edit(project, { onlyAllowMergeIfPipelineSucceeds: true });
  const iid = await propose(place, "patient");
  const waits = async () => (await api.MergeRequests.show(project, iid)).merge_when_pipeline_succeeds;
  await refused(406, api.MergeRequests.cancelOnPipelineSuccess(project, iid));
  await refused(405, api.MergeRequests.merge(project, iid));
  await api.MergeRequests.merge(project, iid, { mergeWhenPipelineSucceeds: true });
  equal(await waits(), true);
  await api.MergeRequests.cancelOnPipelineSuccess(project, iid);
  equal(await waits(), false);
  await api.Projects.edit(project, { onlyAllowMergeIfPipelineSucceeds: false });
}

async function fromAFork({ api, his, project }) {
  const fork = (await his.Projects.fork(project)).id;
  await until("the copy", async () => (await his.Projects.show(fork)).import_status === "finished");
  await commit(his, fork, "gears", "gears.txt");
  const target = { targetProjectId: project, allowCollaboration: true };
  const made = await his.MergeRequests.create(fork, "gears", "main", "Gears", target);
  holds(made, { project_id: project, source_project_id: fork, target_project_id: project, allow_collaboration: true });
  equal(names(await api.MergeRequests.allCommits(project, made.iid)), ["Add gears.txt"]);
  equal((await api.MergeRequests.merge(project, made.iid)).state, "merged");
  equal(await api.RepositoryFiles.showRaw(project, "gears.txt", "main"), "x\n");
  await his.Projects.remove(fork);
}

export const mergeRequests = [
  opening, listsOfMergeRequests, whatTheyBring, whatIsSaid, editing, squashing, whoMayMerge, rebasing, conflicts, waiting,
  fromAFork,
];
