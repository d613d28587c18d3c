// Tests with axe of one page of each shape and of the states that scripts add, and tests of small screens, large text and motion.
import axe from "axe-core";
import assert from "node:assert/strict";
import { base, control, deprecated, find, full, index, largest, open, operation, send, signIn, token } from "./browser.mjs";

const at = (path) => (page) => page.goto(base + path);
const [schema] = index.schemas.find(([name]) => name === "Issue");
/** Name, and steps to the page. */
export const shapes = [
  ["start", at("/docs/")],
  ["guide", at("/docs/guide/requests")],
  ["tag", at("/docs/tag/issues")],
  ["largest tag", at("/docs/tag/award-emoji")],
  ["schema", at(`/docs/schema/${schema}`)],
  ["list of schemas", at("/docs/schemas")],
  ["roles", at("/docs/roles")],
  ["errors", at("/docs/errors")],
  ["changelog", at("/docs/changelog")],
  ["plain operation", at("/docs/operation/get_branch")],
  ["query", at("/docs/operation/list_issues")],
  ["body", at("/docs/operation/create_issue")],
  ["upload", at("/docs/operation/upload_project_file")],
  ["deletion", at("/docs/operation/delete_issue")],
  ["deprecated operation", at(`/docs/operation/${deprecated}`)],
  ["largest operation", at(`/docs/operation/${largest}`)],
];
/** States of pages, after a step of the reader. */
const states = [
  ["search with results", async (page) => {
    await page.goto(`${base}/docs/`);
    await page.keyboard.press("Control+k");
    assert.ok((await find(page, "branch")).length > 5);
  }],
  ["search without results", async (page) => assert.deepEqual(await find(page, "xyzzy plugh"), [])],
  ["answer", async (page) => {
    await operation(page, "get_project");
    await control(page, "Token").fill(token);
    await control(page, "id").fill("root/docs-tour");
    assert.equal((await send(page)).status(), 200);
    await page.click("#try summary:text-is('Headers')");
  }],
  ["confirmation", async (page) => {
    await operation(page, "delete_issue");
    await control(page, "id").fill("root/docs-tour");
    await control(page, "issue_iid").fill("1");
    await page.click("#try button[type=submit]");
    await page.waitForSelector("text=This request deletes data.");
  }],
  ["all parts open", async (page) => {
    await operation(page, "list_issues");
    await page.evaluate(() => document.querySelectorAll("details").forEach((part) => (part.open = true)));
  }],
  ["signed in", (page) => signIn(page, "get_project")],
];

/** Returns the number of rules that passed, and the violations. */
const audit = async (page) => {
  // Evaluated by the browser, because the content policy forbids other scripts in the page.
  await page.evaluate(axe.source);
  return page.evaluate(async () => {
    // The rule for targets of 24 pixels is not enabled by default.
    const rules = { "target-size": { enabled: true } };
    const { passes, violations } = await globalThis.axe.run(document, { resultTypes: ["violations"], rules });
    const nodes = (list) => list.map((node) => node.target.join(" ")).join(", ");
    return [passes.map(({ id }) => id), violations.map(({ id, nodes: list }) => `${id}: ${nodes(list)}`)];
  });
};

/** Colors and widths. Each occurs once without `full`. */
const combinations = [["light", 1400], ["dark", 390]];
if (full) combinations.push(["dark", 1400], ["light", 390]);

export const accessibility = async () => {
  const checked = new Set();
  let count = 0;
  const visit = async ([colorScheme, width]) => {
    const page = await open({ colorScheme, viewport: { width, height: 900 } });
    for (const [name, show] of [...shapes, ...states]) {
      await show(page);
      const [passed, violations] = await audit(page);
      assert.ok(passed.length > 10, `${name}: only ${passed.length} rules were checked`);
      assert.deepEqual(violations, [], `${name}, ${colorScheme}, ${width} pixels`);
      passed.forEach((rule) => checked.add(rule));
      count += 1;
    }
    await page.context().close();
  };
  await Promise.all(combinations.map(visit));
  for (const rule of ["target-size", "color-contrast", "region", "scrollable-region-focusable"]) assert.ok(checked.has(rule), `${rule} was not checked`);
  console.log(`axe has no objections to ${count} pages and states, light and dark, wide and narrow`);
};

export const narrowPages = async () => {
  const page = await open({ viewport: { width: 320, height: 640 } });
  for (const [name, show] of full ? [...shapes, ...states] : shapes) {
    await show(page);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `${name} scrolls sideways by ${overflow}`);
    assert.ok(await page.locator(".tools >> text=/Sign (in|out)/").isVisible(), `${name} has no button to sign in`);
  }
  await page.goto(`${base}/docs/`);
  await page.click("a.menu");
  await page.click("#navigation summary:text-is('Issues'), #navigation summary:text-is('Planning')");
  await page.click("#navigation a:text-is('Boards')");
  assert.equal(await page.locator("h1").textContent(), "Boards");
  await page.context().close();
};

/** Elements that cut their text, or that are outside of the window. */
const cutElements = () => {
  const found = [];
  for (const part of document.querySelectorAll("body *")) {
    const { overflowX, overflowY, clipPath, opacity } = getComputedStyle(part);
    const box = part.getBoundingClientRect();
    if (!box.width || clipPath !== "none" || opacity === "0" || part.closest(".skip")) continue;
    const isCut = (overflowX === "hidden" && part.scrollWidth > part.clientWidth + 1) || (overflowY === "hidden" && part.scrollHeight > part.clientHeight + 1);
    const isOutside = part.closest(".top") && (box.right > innerWidth + 1 || box.bottom > part.closest(".top").getBoundingClientRect().bottom + 1);
    if (isCut || isOutside) found.push(`${part.tagName} ${part.className}: ${part.textContent.slice(0, 40)}`);
  }
  return found;
};

/** A reader can double the size of the text in the settings of the browser. */
export const largeText = async () => {
  for (const width of [1400, 640]) {
    const page = await open({ viewport: { width, height: 900 } });
    const session = await page.context().newCDPSession(page);
    await session.send("Page.setFontSizes", { fontSizes: { standard: 32, fixed: 26 } });
    for (const [name, show] of shapes) {
      await show(page);
      const [size, overflow] = await page.evaluate(() => [getComputedStyle(document.body).fontSize, document.documentElement.scrollWidth - innerWidth]);
      assert.equal(size, "32px", `${name} ignores the size of text`);
      assert.ok(overflow <= 0, `${name} with large text and ${width} pixels scrolls sideways by ${overflow}`);
      assert.deepEqual(await page.evaluate(cutElements), [], `${name} with large text and ${width} pixels`);
    }
    await page.context().close();
  }
  console.log("text of twice the size is complete");
};

export const motion = async () => {
  for (const [reducedMotion, behavior] of [["reduce", "auto"], ["no-preference", "smooth"]]) {
    const page = await open({ reducedMotion });
    await operation(page, "get_project");
    assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).scrollBehavior), behavior);
    const moving = await page.evaluate(() => [...document.querySelectorAll("*")].filter((part) => {
      const { transitionDuration, animationName } = getComputedStyle(part);
      return /[1-9]/.test(transitionDuration) || animationName !== "none";
    }).length);
    if (reducedMotion === "reduce") assert.equal(moving, 0);
    await page.context().close();
  }
};
