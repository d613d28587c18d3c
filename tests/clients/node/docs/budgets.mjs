// Limits of the pages: elements, memory, first paint, long tasks and the time of the search. The tests of the generator check the
// sizes of the files.
import assert from "node:assert/strict";
import { base, find, largest, open, operation, traced } from "./browser.mjs";
import { shapes } from "./accessibility.mjs";

const MAX_ELEMENTS = 2_000;
const MAX_HEAP = 2 << 20;
/**
 * First paint of the largest page, as a multiple of the first paint of an empty page and of the shortest operation. A debug build
 * on two cores measures 3.3 and 1.0. The request for the style sheet takes half of the time.
 */
const MAX_PAINT = { empty: 4, shortest: 1.5 };
/** Processor time of a task, in milliseconds. */
const MAX_TASK = 50;
/** Frames from a key to the first result. */
const MAX_FRAMES = 2;

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

export const budgets = async () => {
  const page = await open();
  await operation(page, largest);
  const elements = await page.evaluate(() => document.querySelectorAll("*").length);
  assert.ok(elements <= MAX_ELEMENTS, `${largest} has ${elements} elements`);
  await page.context().close();
  console.log(`${largest}, the largest operation, has ${elements} elements`);
};

export const memory = async () => {
  const page = await open();
  const session = await page.context().newCDPSession(page);
  let most = 0;
  for (const [name, show] of shapes) {
    await show(page);
    await session.send("HeapProfiler.collectGarbage");
    const { usedSize } = await session.send("Runtime.getHeapUsage");
    assert.ok(usedSize <= MAX_HEAP, `the scripts of ${name} use ${usedSize} bytes`);
    most = Math.max(most, usedSize);
  }
  await page.context().close();
  console.log(`the scripts of a page use at most ${most} bytes`);
};

/** Loads a page with an empty cache, and returns the time of its first paint. */
const firstPaint = async (path) => {
  const page = await open();
  await page.goto(base + path);
  await page.waitForFunction(() => performance.getEntriesByName("first-paint").length > 0);
  const time = await page.evaluate(() => performance.getEntriesByName("first-paint")[0].startTime);
  await page.context().close();
  return time;
};

/** Compares with the text of the health check, which is the smallest page of the server, because times depend on the machine. */
export const paint = async () => {
  const paths = { empty: "/-/health", shortest: "/docs/operation/get_version", largest: `/docs/operation/${largest}` };
  const times = { empty: [], shortest: [], largest: [] };
  for (let round = 0; round < 9; round++) {
    for (const [name, path] of Object.entries(paths)) times[name].push(await firstPaint(path));
  }
  for (const [name, limit] of Object.entries(MAX_PAINT)) {
    const ratio = median(times.largest) / median(times[name]);
    const result = `the first paint of ${largest} takes ${ratio.toFixed(2)} times that of ${paths[name]}`;
    assert.ok(ratio <= limit, result);
    console.log(result);
  }
};

/** Counts processor time, because a loaded machine interrupts tasks. */
export const tasks = async () => {
  const longest = [];
  for (let round = 0; round < 5; round++) {
    const page = await open();
    const events = await traced(page, ["disabled-by-default-devtools.timeline", "devtools.timeline"], async () => {
      await operation(page, largest);
      await page.waitForSelector("#try button");
    });
    const main = events.filter(({ name, args }) => name === "thread_name" && args.name === "CrRendererMain").map(({ pid, tid }) => `${pid}.${tid}`);
    const times = events.filter(({ name, pid, tid, tdur }) => name === "RunTask" && tdur && main.includes(`${pid}.${tid}`)).map(({ tdur }) => tdur / 1000);
    assert.ok(times.length > 10, "the browser recorded no tasks");
    longest.push(Math.max(...times));
    await page.context().close();
  }
  const time = median(longest);
  assert.ok(time <= MAX_TASK, `the longest task of ${largest} takes ${time.toFixed(1)} ms`);
  console.log(`the longest task of ${largest} takes ${time.toFixed(1)} ms of processor time`);
};

/** Counts frames from each key of a query to the change of the results. */
export const frames = async () => {
  const page = await open();
  await page.goto(`${base}/docs/`);
  await page.keyboard.press("Control+k");
  await find(page, "first");
  await page.evaluate(() => {
    let frame = 0;
    let pressed = 0;
    globalThis.frames_of_keys = [];
    const next = () => {
      frame += 1;
      requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
    document.addEventListener("keydown", () => (pressed = frame), true);
    new MutationObserver(() => globalThis.frames_of_keys.push(frame - pressed)).observe(document.getElementById("results"), { childList: true });
  });
  const query = "protect a branch";
  await page.fill(".search input", "");
  await page.waitForFunction(() => globalThis.frames_of_keys.splice(0).length === 1);
  for (const [at, key] of [...query].entries()) {
    await page.keyboard.press(key === " " ? "Space" : key);
    await page.waitForFunction((count) => globalThis.frames_of_keys.length > count, at);
  }
  const counts = await page.evaluate(() => globalThis.frames_of_keys);
  assert.ok(median(counts) <= MAX_FRAMES, `results appear after these numbers of frames: ${counts}`);
  await page.context().close();
  console.log(`results appear after ${median(counts)} frames`);
};
