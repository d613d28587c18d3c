// Walks through labels, milestones, boards, badges, issues, notes, emoji, snippets, epics, merge requests, pipelines,
// deployments, protected refs, approvals, releases, packages, mirrors, templates, images and group transfers with an
// unmodified API client. Usage: node planning.mjs BASE TOKEN
import { AccessLevel, Gitlab } from "@gitbeaker/rest";
import { equal, go, holds, lists, names, refused } from "./checks.mjs";
import { deploying } from "./deploying.mjs";
import { flags } from "./flags.mjs";
import { mergeRequests } from "./merging.mjs";
import { pipelines } from "./pipelines.mjs";
import { registry } from "./registry.mjs";
import { releasing } from "./releasing.mjs";
import { shipping } from "./shipping.mjs";
import { templates } from "./templates.mjs";
import { awards, notes, subscriptions, times } from "./things.mjs";
import { transferring } from "./transferring.mjs";

const [host, token] = process.argv.slice(2);
const root = new Gitlab({ host, token });

async function person(username) {
  const user = await root.Users.create({
    username,
    name: username,
    email: `${username}@example.com`,
    password: "walks a long way 42",
    skipConfirmation: true,
  });
  const made = await root.UserImpersonationTokens.create(user.id, "walk", ["api"], { expiresAt: "2099-01-01" });
  return { id: user.id, token: made.token, api: new Gitlab({ host, token: made.token }) };
}

async function people(place) {
  place.grace = await person("grace");
  place.alan = await person("alan");
  const { api } = place.grace;
  const group = await api.Groups.create("Codes", "codes", { visibility: "public" });
  const project = await api.Projects.create({
    name: "Compiler",
    namespaceId: group.id,
    visibility: "public",
    initializeWithReadme: true,
    defaultBranch: "main",
  });
  await api.GroupMembers.add(group.id, AccessLevel.DEVELOPER, { userId: place.alan.id });
  Object.assign(place, { host, api, his: place.alan.api, root, group: group.id, project: project.id });
}

async function labels({ api, group, project }) {
  const { GroupLabels, ProjectLabels } = api;
  await GroupLabels.create(group, "security", "red");
  const bug = await ProjectLabels.create(project, "a/bug", "#D9534F", { description: "Broken", priority: 1 });
  holds(bug, { name: "a/bug", color: "#D9534F", text_color: "#FFFFFF", description: "Broken", priority: 1 });
  equal(names(await ProjectLabels.all(project), "name"), ["a/bug", "security"]);
  equal(names(await ProjectLabels.all(project, { search: "SEC" }), "name"), ["security"]);
  equal((await ProjectLabels.all(project, { withCounts: true }))[0].open_issues_count, 0);
  equal((await ProjectLabels.show(project, "a/bug")).id, bug.id);
  holds(await ProjectLabels.edit(project, "a/bug", { newName: "bug", color: "#000000" }), { name: "bug", color: "#000000" });
  equal(await refused(409, ProjectLabels.create(project, "bug", "red")), "Label already exists");
  await refused(400, ProjectLabels.create(project, "x", "colourful"));
  await ProjectLabels.promote(project, "bug");
  equal(names(await GroupLabels.all(group), "name"), ["bug", "security"]);
  equal((await GroupLabels.edit(group, "bug", { color: "blue", description: "Out of order" })).description, "Out of order");
  equal((await GroupLabels.show(group, "bug")).description, "Out of order");
  await GroupLabels.remove(group, "bug");
  await refused(404, ProjectLabels.show(project, "bug"));
}

async function milestones({ api, group, project }) {
  const { GroupMilestones, ProjectMilestones } = api;
  const made = await ProjectMilestones.create(project, "v1", { startDate: "2030-01-01", dueDate: "2030-01-31" });
  holds(made, { iid: 1, state: "active", expired: false, start_date: "2030-01-01", due_date: "2030-01-31" });
  equal((await ProjectMilestones.edit(project, made.id, { stateEvent: "close" })).state, "closed");
  await lists(async (filters) => names(await ProjectMilestones.all(project, filters)), [
    [{ state: "closed" }, ["v1"]],
    [{ state: "active" }, []],
    [{ iids: [1] }, ["v1"]],
    [{ iids: [2] }, []],
    [{ search: "V1" }, ["v1"]],
  ]);
  await refused(400, ProjectMilestones.create(project, "v1"));
  await ProjectMilestones.promote(project, made.id);
  equal(names(await ProjectMilestones.all(project, { includeParentMilestones: true })), ["v1"]);
  const [promoted] = await GroupMilestones.all(group);
  await GroupMilestones.edit(group, promoted.id, { title: "v2", description: "The next" });
  holds(await GroupMilestones.show(group, promoted.id), { title: "v2", description: "The next", group_id: group });
  await GroupMilestones.remove(group, promoted.id);
  equal(await GroupMilestones.all(group), []);
}

async function boardsOf({ boards, labels, milestones, assignee }, place) {
  const board = await boards.create(place, "Work");
  const [first, second] = [await labels.create(place, `a ${place}`, "blue"), await labels.create(place, `b ${place}`, "blue")];
  const list = await boards.createList(place, board.id, { labelId: first.id });
  const other = await boards.createList(place, board.id, { labelId: second.id });
  equal((await boards.editList(place, board.id, other.id, 0)).position, 0);
  equal((await boards.allLists(place, board.id)).map((each) => each.label.id), [second.id, first.id]);
  equal((await boards.edit(place, board.id, { name: "Play" })).name, "Play");
  equal((await boards.show(place, board.id)).lists.map((each) => each.position), [0, 1]);
  await boards.removeList(place, board.id, other.id);
  equal((await boards.showList(place, board.id, list.id)).position, 0);
  const milestone = await milestones.create(place, `m ${place}`);
  equal((await boards.createList(place, board.id, { assigneeId: assignee })).assignee.id, assignee);
  equal((await boards.createList(place, board.id, { milestoneId: milestone.id })).milestone.id, milestone.id);
  await boards.edit(place, board.id, { assigneeId: assignee, milestoneId: milestone.id, weight: 3, labels: second.name });
  const read = await boards.show(place, board.id);
  equal([read.assignee.id, read.milestone.id, read.weight, names(read.labels, "id")], [assignee, milestone.id, 3, [second.id]]);
  await boards.remove(place, board.id);
  await milestones.remove(place, milestone.id);
  equal(await boards.all(place), []);
}

async function boards({ api, grace, group, project }) {
  const [assignee, { ProjectIssueBoards, ProjectLabels, ProjectMilestones }] = [grace.id, api];
  await boardsOf({ boards: ProjectIssueBoards, labels: ProjectLabels, milestones: ProjectMilestones, assignee }, project);
  const { GroupIssueBoards, GroupLabels, GroupMilestones } = api;
  await boardsOf({ boards: GroupIssueBoards, labels: GroupLabels, milestones: GroupMilestones, assignee }, group);
}

async function badge(badges, place) {
  const made = await badges.add(place, "https://h/%{project_id}", "https://h/x.svg");
  equal((await badges.edit(place, made.id, { imageUrl: "https://h/y.svg" })).image_url, "https://h/y.svg");
  equal((await badges.show(place, made.id)).rendered_image_url, "https://h/y.svg");
  equal((await badges.preview(place, "https://h/l", "https://h/x.svg")).rendered_image_url, "https://h/x.svg");
  return made.id;
}

async function badges({ api, group, project }) {
  const [above, own] = [await badge(api.GroupBadges, group), await badge(api.ProjectBadges, project)];
  equal(names(await api.ProjectBadges.all(project), "kind"), ["group", "project"]);
  await api.ProjectBadges.remove(project, own);
  await api.GroupBadges.remove(group, above);
  equal(await api.ProjectBadges.all(project), []);
}

async function issues(place) {
  const { api, his, project } = place;
  place.milestone = (await api.ProjectMilestones.create(project, "v3")).id;
  const jam = await api.Issues.create(project, "Cards jam", {
    description: "- [x] see\n- [ ] mend",
    labels: "bug,urgent",
    weight: 3,
    milestoneId: place.milestone,
    assigneeIds: [place.alan.id],
    dueDate: "2030-01-15",
  });
  holds(jam, {
    iid: 1,
    project_id: project,
    state: "opened",
    labels: ["bug", "urgent"],
    due_date: "2030-01-15",
    weight: 3,
    confidential: false,
    subscribed: true,
    closed_by: null,
    user_notes_count: 0,
    upvotes: 0,
    moved_to_id: null,
    task_completion_status: { count: 2, completed_count: 1 },
    references: { short: "#1", relative: "#1", full: "codes/compiler#1" },
  });
  equal([jam.author.username, jam.assignees[0].username, jam.milestone.title], ["grace", "alan", "v3"]);
  equal((await api.Issues.create(project, "Plans were lost", { confidential: true })).iid, 2);
  equal((await his.Issues.create(project, "Oil", { description: "The cards need some", labels: "bug" })).iid, 3);
  const closed = await api.Issues.edit(project, 2, { stateEvent: "close" });
  equal([closed.state, closed.closed_by.username], ["closed", "grace"]);
  holds(await api.Issues.edit(project, 1, { addLabels: "loud", removeLabels: "urgent", discussionLocked: true }), {
    labels: ["bug", "loud"],
    discussion_locked: true,
    title: "Cards jam",
  });
  await api.Issues.edit(project, 1, { labels: "bug,urgent", discussionLocked: false });
  holds(await api.Issues.show(1, { projectId: project }), { labels: ["bug", "urgent"], discussion_locked: false });
  await refused(400, api.Issues.create(project, " "));
  await refused(400, api.Issues.edit(project, 1, {}));
  await refused(404, api.Issues.show(4, { projectId: project }));
}

async function listsOfIssues({ api, his, root, project, group, grace, alan, milestone }) {
  const inOrder = { orderBy: "created_at", sort: "asc" };
  const iids = async (filters, client = api) => names(await client.Issues.all({ ...inOrder, ...filters }), "iid");
  await lists((filters) => iids({ projectId: project, ...filters }), [
    [{}, [1, 2, 3]],
    [{ perPage: 1 }, [1, 2, 3]],
    [{ perPage: 2, maxPages: 1 }, [1, 2]],
    [{ state: "opened" }, [1, 3]],
    [{ labels: "bug" }, [1, 3]],
    [{ labels: "bug,urgent" }, [1]],
    [{ labels: "None" }, [2]],
    [{ milestone: "v3" }, [1]],
    [{ assigneeId: alan.id }, [1]],
    [{ assigneeUsername: ["alan"] }, [1]],
    [{ assigneeId: "None" }, [2, 3]],
    [{ authorId: alan.id }, [3]],
    [{ authorUsername: "grace" }, [1, 2]],
    [{ scope: "created_by_me" }, [1, 2]],
    [{ iids: [2, 3] }, [2, 3]],
    [{ search: "CARDS" }, [1, 3]],
    [{ search: "cards", in: "title" }, [1]],
    [{ confidential: true }, [2]],
    [{ weight: 3 }, [1]],
    [{ createdAfter: "2020-01-01T00:00:00Z" }, [1, 2, 3]],
    [{ updatedBefore: "2020-01-01T00:00:00Z" }, []],
    [{ not: { labels: "urgent" } }, [2, 3]],
    [{ not: { authorId: grace.id } }, [3]],
    [{ myReactionEmoji: "Any" }, []],
  ]);
  equal(await iids({ groupId: group }), [1, 2, 3]);
  equal(await iids({}), [1, 2]);
  equal(await iids({ scope: "assigned_to_me" }, his), [1]);
  equal(await iids({ groupId: group, scope: "all" }, root), [1, 2, 3]);
  const page = await api.Issues.all({ projectId: project, perPage: 2, page: 1, showExpanded: true });
  holds(page.paginationInfo, { total: 3, totalPages: 2, current: 1, next: 2, previous: null, perPage: 2 });
  const [detailed] = await api.Issues.all({ projectId: project, labels: "urgent", withLabelsDetails: true });
  equal(names(detailed.labels, "name"), ["bug", "urgent"]);
  equal(names(await api.ProjectMilestones.allAssignedIssues(project, milestone), "iid"), [1]);
}

async function thingsOfIssues({ api, his, project }) {
  await times(api.Issues, "addTimeEstimate", project, 1);
  await subscriptions(his.Issues, project, 2);
  const note = await notes(his.IssueNotes, "Issue", "alan", project, 1);
  await awards(his.IssueAwardEmojis, "Issue", "alan", project, 1);
  await awards(his.IssueNoteAwardEmojis, "Note", "alan", project, 1, note.id);
  // A note that consists only of an emoji becomes an award emoji.
  equal((await his.IssueNotes.create(project, 1, ":+1:")).name, "thumbsup");
  holds(await api.Issues.show(1, { projectId: project }), { upvotes: 1, user_notes_count: 1 });
  equal(names(await api.Issues.allParticipants(project, 1), "username").sort(), ["alan", "grace"]);
}

async function movesOfIssues({ api, his, group, project }) {
  const other = await api.Projects.create({ name: "Loom", namespaceId: group });
  const { iid } = await api.Issues.create(project, "Thread breaks", { labels: "bug" });
  const moved = await api.Issues.move(project, iid, other.id);
  holds(moved, { project_id: other.id, iid: 1, title: "Thread breaks", state: "opened" });
  holds(await api.Issues.show(iid, { projectId: project }), { state: "closed", moved_to_id: moved.id });
  await refused(403, his.Issues.remove(project, iid));
  await api.Issues.remove(project, iid);
  await refused(404, api.Issues.show(iid, { projectId: project }));
  await api.Projects.remove(other.id);
}

// To-do items of Alan, created by Grace and by himself.
async function todos({ api, his, group, alan }) {
  const { id } = await api.Projects.create({ name: "Errands", namespaceId: group });
  await his.TodoLists.done();
  await api.Issues.create(id, "Buy oil", { assigneeIds: [alan.id] });
  await api.Issues.create(id, "Buy rags", { description: "@alan knows where" });
  await api.Issues.create(id, "Buy soap");
  holds(await his.Issues.createTodo(id, 3), { action_name: "marked", state: "pending", target_type: "Issue" });
  const waiting = async (conditions = {}) =>
    (await his.TodoLists.all(conditions)).map((todo) => [todo.action_name, todo.target.title]);
  equal(await waiting(), [["marked", "Buy soap"], ["directly_addressed", "Buy rags"], ["assigned", "Buy oil"]]);
  equal(await waiting({ action: "assigned", type: "Issue", projectId: id }), [["assigned", "Buy oil"]]);
  const [first] = await his.TodoLists.all();
  equal((await his.TodoLists.done({ todoId: first.id })).state, "done");
  // A note on the target completes the item.
  await his.IssueNotes.create(id, 2, "Done");
  equal(await waiting(), [["assigned", "Buy oil"]]);
  await his.TodoLists.done();
  equal(await waiting(), []);
  equal((await waiting({ state: "done", projectId: id })).length, 3);
  await api.IssueNotes.create(id, 1, "As #3 says");
  equal(names(await api.IssueNotes.all(id, 3), "body"), ["mentioned in issue #1"]);
  await api.Projects.remove(id);
}

// Steps through snippets of a project, if `place` is its ID, or of a user. Returns a snippet that remains.
async function snippetsOf(snippets, list, ...place) {
  const made = await snippets.create(...place, "Start", {
    fileName: "start.sh",
    content: "run now\n",
    description: "How",
    visibility: "public",
  });
  holds(made, { title: "Start", file_name: "start.sh", description: "How", visibility: "public", expires_at: null });
  equal([made.author.username, made.raw_url], ["grace", `${made.web_url}/raw`]);
  equal(await snippets.showContent(...place, made.id), "run now\n");
  const changed = await snippets.edit(...place, made.id, { title: "Stop", content: "stop\n", visibility: "private" });
  holds(changed, { title: "Stop", file_name: "start.sh", visibility: "private" });
  equal(await snippets.showContent(...place, made.id), "stop\n");
  const other = await snippets.create(...place, "Other", { fileName: "other", content: "x", visibility: "internal" });
  equal(names(await list()), ["Other", "Stop"]);
  await refused(400, snippets.create(...place, " ", { fileName: "a", content: "b" }));
  await snippets.remove(...place, other.id);
  await refused(404, snippets.show(...place, other.id));
  return made;
}

async function snippets({ api, his }) {
  const { id } = await snippetsOf(api.Snippets, () => api.Snippets.all());
  equal((await api.Snippets.show(id)).project_id, null);
  await refused(404, his.Snippets.show(id));
  await api.Snippets.edit(id, { visibility: "public" });
  equal(await his.Snippets.showContent(id), "stop\n");
  equal(names(await his.Snippets.all({ public: true }), "id"), [id]);
  await api.Snippets.remove(id);
  equal(await api.Snippets.all(), []);
}

async function projectSnippets({ api, project }) {
  const { id } = await snippetsOf(api.ProjectSnippets, () => api.ProjectSnippets.all(project), project);
  equal((await api.ProjectSnippets.show(project, id)).project_id, project);
  const note = await notes(api.ProjectSnippetNotes, "Snippet", "grace", project, id);
  holds(await api.ProjectSnippetNotes.show(project, id, note.id), { title: "Stop", file_name: "start.sh", noteable_id: id });
  await awards(api.ProjectSnippetAwardEmojis, "Snippet", "grace", project, id);
  await api.ProjectSnippets.remove(project, id);
  equal(await api.ProjectSnippets.all(project), []);
}

async function epics(place) {
  const { api, group, grace, alan } = place;
  const { Epics } = api;
  const made = await Epics.create(group, "Less noise", { description: "At night", labels: "security" });
  holds(made, {
    iid: 1,
    group_id: group,
    state: "opened",
    labels: ["security"],
    parent_id: null,
    closed_at: null,
    references: { short: "&1", relative: "&1", full: "codes&1" },
  });
  equal(made.author.username, "grace");
  const part = await Epics.create(group, "Felt", { parentId: made.id, confidential: true });
  holds(part, { iid: 2, parent_id: made.id, confidential: true });
  equal((await Epics.edit(group, 2, { stateEvent: "close" })).state, "closed");
  const edited = await Epics.edit(group, 1, { title: "No noise", addLabels: "urgent" });
  holds(edited, { title: "No noise", labels: ["security", "urgent"] });
  await lists(async (filters) => names(await Epics.all(group, { orderBy: "created_at", sort: "asc", ...filters }), "iid"), [
    [{}, [1, 2]],
    [{ perPage: 1 }, [1, 2]],
    [{ state: "closed" }, [2]],
    [{ labels: "urgent" }, [1]],
    [{ search: "NOISE" }, [1]],
    [{ authorId: alan.id }, []],
    [{ authorId: grace.id }, [1, 2]],
  ]);
  const note = await notes(api.EpicNotes, "Epic", "grace", group, made.id);
  holds(await api.EpicNotes.show(group, made.id, note.id), { title: "No noise", noteable_id: made.id });
  equal((await Epics.show(group, 1)).user_notes_count, 1);
  await refused(400, Epics.create(group, " "));
  await Epics.remove(group, 2);
  await refused(404, Epics.show(group, 2));
}

async function issuesOfEpics({ api, group, project }) {
  const added = [];
  for (const iid of [1, 3]) {
    const { id } = await api.Issues.show(iid, { projectId: project });
    added.push(await api.EpicIssues.assign(group, 1, id));
  }
  const [first, second] = added;
  equal([first.issue.iid, first.epic.iid], [1, 1]);
  const iids = async () => (await api.EpicIssues.all(group, 1)).map((each) => [each.iid, each.epic_issue_id]);
  equal(await iids(), [[1, first.id], [3, second.id]]);
  equal(names(await api.EpicIssues.edit(group, 1, second.id, { moveAfterId: first.id }), "iid"), [3, 1]);
  equal(await iids(), [[3, second.id], [1, first.id]]);
  await api.EpicIssues.remove(group, 1, first.id);
  equal(await iids(), [[3, second.id]]);
  await api.Epics.remove(group, 1);
  equal(await api.Epics.all(group), []);
}

// The same responses with names in camel case, and with a bearer token.
async function otherForms({ grace, project }) {
  const api = new Gitlab({ host, oauthToken: grace.token, camelize: true });
  const issue = await api.Issues.show(1, { projectId: project });
  holds(issue, { projectId: project, taskCompletionStatus: { count: 2, completedCount: 1 } });
  equal([issue.author.username, issue.timeStats.totalTimeSpent], ["grace", 0]);
  const [request] = await api.MergeRequests.all({ projectId: project, state: "merged", sourceBranch: "cards" });
  holds(request, { targetBranch: "main", mergeStatus: "can_be_merged" });
  equal((await api.IssueNotes.all(project, 1)).map((note) => [note.noteableType, note.noteableIid])[0], ["Issue", 1]);
}

async function theEnd({ api, group, project, milestone }) {
  await api.ProjectMilestones.remove(project, milestone);
  equal((await api.Issues.show(1, { projectId: project })).milestone, null);
  await api.Projects.remove(project);
  await api.Groups.remove(group);
}

await go({ host }, [
  people, labels, milestones, boards, badges, issues, listsOfIssues, thingsOfIssues, movesOfIssues, todos, snippets, projectSnippets,
  epics, issuesOfEpics, ...mergeRequests, ...pipelines, ...deploying, ...shipping, ...releasing, ...templates, ...registry, ...flags,
  ...transferring,
  otherForms, theEnd,
]);
