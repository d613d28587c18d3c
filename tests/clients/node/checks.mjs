// Shared helpers of the walks: assertions, waiting and steps.
import assert from "node:assert/strict";

export function equal(found, expected) {
  const told = `found ${JSON.stringify(found)}, expected ${JSON.stringify(expected)}`;
  assert.deepEqual(found, expected, told);
}

// Asserts the values of these fields of a response, all at once.
export function holds(answer, expected) {
  equal(Object.fromEntries(Object.keys(expected).map((field) => [field, answer[field]])), expected);
}

// Returns the error message of a call that must fail with this status.
export async function refused(status, call) {
  const error = await call.then(() => null, (error) => error);
  assert.ok(error, `did not fail with ${status}`);
  if (!error.cause?.response) throw error;
  equal(error.cause.response.status, status);
  return error.cause.description;
}

// Waits for a change in the background.
export async function until(what, happened) {
  const end = Date.now() + 60_000;
  while (!(await happened())) {
    assert.ok(Date.now() < end, `timed out waiting for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

// Asserts the entries of a list for each set of conditions; `list` returns values that identify the entries.
export async function lists(list, conditions) {
  for (const [condition, expected] of conditions) equal([condition, await list(condition)], [condition, expected]);
}

// Returns one field of each entry of a list.
export const names = (list, field = "title") => list.map((each) => each[field]);

// Runs these steps in order with shared state.
export async function go(place, steps) {
  for (const step of steps) {
    await step(place);
    console.log(`  ${step.name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)}`);
  }
}
