// Steps through the shared features of issues, merge requests and epics: time tracking, notes, emoji and subscriptions.
import { equal, holds, refused } from "./checks.mjs";

// Time tracking of one noteable; `estimate` is the client's method that sets the estimate.
export async function times(resource, estimate, ...thing) {
  equal((await resource[estimate](...thing, "3h30m")).human_time_estimate, "3h 30m");
  equal((await resource.addSpentTime(...thing, "1h")).total_time_spent, 3600);
  equal((await resource.addSpentTime(...thing, "-30m")).human_total_time_spent, "30m");
  equal(await resource.showTimeStats(...thing), {
    time_estimate: 12600,
    total_time_spent: 1800,
    human_time_estimate: "3h 30m",
    human_total_time_spent: "30m",
  });
  equal((await resource.resetSpentTime(...thing)).total_time_spent, 0);
  equal((await resource.resetTimeEstimate(...thing)).time_estimate, 0);
  await refused(400, resource.addSpentTime(...thing, "a while"));
}

// Notes on one noteable of this kind; returns a note that remains.
export async function notes(resource, kind, author, ...thing) {
  const first = await resource.create(...thing, "First");
  const second = await resource.create(...thing, "Second");
  holds(first, { body: "First", noteable_type: kind, system: false, resolvable: false, confidential: false, attachment: null });
  equal(first.author.username, author);
  for (const [sort, expected] of [["asc", ["First", "Second"]], ["desc", ["Second", "First"]]]) {
    const listed = await resource.all(...thing, { sort, orderBy: "created_at", perPage: 1 });
    equal(listed.filter((note) => !note.system).map((note) => note.body), expected);
  }
  equal((await resource.edit(...thing, first.id, { body: "The first" })).body, "The first");
  equal((await resource.show(...thing, first.id)).body, "The first");
  await refused(400, resource.create(...thing, " "));
  await resource.remove(...thing, first.id);
  await refused(404, resource.show(...thing, first.id));
  return second;
}

// Award emoji on one noteable of this kind.
export async function awards(resource, kind, user, ...thing) {
  const award = await resource.award(...thing, "tada");
  holds(award, { name: "tada", awardable_type: kind });
  equal(award.user.username, user);
  equal((await resource.show(...thing, award.id)).name, "tada");
  equal((await resource.all(...thing)).map((each) => each.id), [award.id]);
  await refused(404, resource.award(...thing, "tada"));
  await refused(404, resource.award(...thing, "no such emoji"));
  await resource.remove(...thing, award.id);
  equal(await resource.all(...thing), []);
}

// Actions of a user who is not the author.
export async function subscriptions(resource, ...thing) {
  equal((await resource.subscribe(...thing)).subscribed, true);
  await refused(304, resource.subscribe(...thing));
  equal((await resource.unsubscribe(...thing)).subscribed, false);
}
