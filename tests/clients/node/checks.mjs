// What the walks have in common: how they hold an answer to what is expected, wait, and go from step to step.
import assert from "node:assert/strict";

export function equal(found, expected) {
  const told = `found ${JSON.stringify(found)}, expected ${JSON.stringify(expected)}`;
  assert.deepEqual(found, expected, told);
}

// Holds these fields of an answer to what is expected, all at once.
export function holds(answer, expected) {
  equal(Object.fromEntries(Object.keys(expected).map((field) => [field, answer[field]])), expected);
}

// The text of a call that must fail with this status.
export async function refused(status, call) {
  const error = await call.then(() => null, (error) => error);
  assert.ok(error, `not refused with ${status}`);
  if (!error.cause?.response) throw error;
  equal(error.cause.response.status, status);
  return error.cause.description;
}

// Waits for something that happens in the background.
export async function until(what, happened) {
  const end = Date.now() + 60_000;
  while (!(await happened())) {
    assert.ok(Date.now() < end, `${what} does not happen`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

// Holds lists to what is expected, one set of conditions after the other; `list` gives what stands for the entries.
export async function lists(list, conditions) {
  for (const [condition, expected] of conditions) equal([condition, await list(condition)], [condition, expected]);
}

// What the entries of a list have in this field.
export const names = (list, field = "title") => list.map((each) => each[field]);

// Takes these steps, one after the other, with what is known by then.
export async function go(place, steps) {
  for (const step of steps) {
    await step(place);
    console.log(`  ${step.name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)}`);
  }
}
