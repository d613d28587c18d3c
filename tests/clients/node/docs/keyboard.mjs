// The search and the form with the keyboard alone, and the visibility of the focus.
import assert from "node:assert/strict";
import { base, full, open, operation, shown, token } from "./browser.mjs";
import { shapes } from "./accessibility.mjs";

/** Presses Tab until a condition on the element with the focus is true. */
const tabTo = async (page, condition, name) => {
  for (let presses = 0; presses < 400; presses++) {
    await page.keyboard.press("Tab");
    if (await page.evaluate(condition)) return;
  }
  assert.fail(`Tab does not reach ${name}`);
};
/** Presses Tab until the field with this name has the focus. */
const tabToField = (page, name) => tabTo(page, `document.activeElement.closest("#try label")?.querySelector("code")?.textContent === ${JSON.stringify(name)}`, name);
const tabToText = (page, text) => tabTo(page, `document.activeElement.textContent === ${JSON.stringify(text)}`, text);
const active = (page) => page.evaluate(() => document.activeElement.textContent);

export const searchByKeyboard = async () => {
  const page = await open();
  await page.goto(`${base}/docs/`);
  await tabToText(page, "SearchCtrl K");
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog[open]");
  await page.keyboard.type("branch");
  const chosen = () => page.evaluate(() => {
    const input = document.querySelector(".search input");
    const option = document.getElementById(input.getAttribute("aria-activedescendant"));
    return option?.getAttribute("aria-selected") === "true" && document.activeElement === input ? [...option.parentElement.children].indexOf(option) : null;
  });
  await page.waitForFunction(() => document.querySelectorAll("#results [role=option]").length > 3);
  assert.equal(await chosen(), 0);
  for (const [key, position] of [["ArrowDown", 1], ["ArrowDown", 2], ["ArrowUp", 1]]) {
    await page.keyboard.press(key);
    assert.equal(await chosen(), position, key);
  }
  // The focus stays in the dialog, and returns to the button.
  await page.keyboard.press("Tab");
  assert.ok(await page.evaluate(() => document.activeElement === document.body || document.activeElement.closest("dialog") !== null));
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => !document.querySelector("dialog").open);
  assert.equal(await active(page), "SearchCtrl K");
  await page.keyboard.press("Meta+k");
  await page.keyboard.type("protect a branch");
  await page.waitForFunction(() => document.querySelector("#results [role=option]")?.dataset.target === "/docs/operation/protect_branch");
  await Promise.all([page.waitForURL("**/docs/operation/protect_branch"), page.keyboard.press("Enter")]);
  await page.context().close();
};

export const formByKeyboard = async () => {
  const page = await open();
  await operation(page, "create_issue");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "content");
  await tabTo(page, `document.activeElement.id === "sample-curl"`, "the languages");
  await page.keyboard.press("ArrowRight");
  assert.ok(await page.locator("pre.python").first().isVisible());
  await tabToField(page, "id");
  await page.keyboard.type("root/docs-tour");
  await tabTo(page, `document.activeElement.getAttribute("aria-label") === "Body"`, "the body");
  await page.keyboard.type(`{"title": "Typed"}`);
  await tabToField(page, "Token");
  await page.keyboard.type(token);
  await tabToText(page, "Send");
  await Promise.all([page.waitForResponse((answer) => answer.url().includes("/api/")), page.keyboard.press("Enter")]);
  await page.waitForSelector("#try .status");
  const created = JSON.parse(await shown(page));
  assert.equal(created.title, "Typed");
  await tabToText(page, "Headers");
  await page.keyboard.press("Enter");
  assert.ok(await page.locator("#try [aria-label=Headers] code").isVisible());
  await tabToText(page, "Copy as curl");

  // A deletion is confirmed or canceled.
  await operation(page, "delete_issue");
  await tabToField(page, "id");
  await page.keyboard.type("root/docs-tour");
  await tabToField(page, "issue_iid");
  await page.keyboard.type(String(created.iid));
  await page.keyboard.press("Enter");
  assert.equal(await active(page), "Send anyway");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  assert.equal(await active(page), "Send");
  await page.keyboard.press("Enter");
  const [deleted] = await Promise.all([page.waitForResponse((answer) => answer.request().method() === "DELETE"), page.keyboard.press("Enter")]);
  assert.equal(deleted.status(), 204);
  await page.context().close();
  console.log("the search and the form can be used with the keyboard alone");
};

/** Describes the element with the focus if its focus is not visible. The label of a radio button shows its focus. */
const hiddenFocus = () => {
  const part = document.activeElement;
  if (part === document.body) return "end";
  const shown = part.type === "radio" ? part.nextElementSibling : part;
  const { outlineStyle, outlineWidth, opacity, visibility } = getComputedStyle(shown);
  const box = shown.getBoundingClientRect();
  const [x, y] = [(Math.max(box.left, 0) + Math.min(box.right, innerWidth)) / 2, (Math.max(box.top, 0) + Math.min(box.bottom, innerHeight)) / 2];
  // A link of several lines does not contain its center.
  const lines = [...shown.getClientRects()].map((line) => document.elementFromPoint((line.left + line.right) / 2, (line.top + line.bottom) / 2));
  const isOnTop = [document.elementFromPoint(x, y), ...lines].some((top) => top && (shown.contains(top) || top.contains(shown)));
  const isOutlined = outlineStyle !== "none" && parseFloat(outlineWidth) >= 2;
  if (isOutlined && opacity !== "0" && visibility === "visible" && isOnTop) return null;
  return `${part.tagName} ${part.className} ${part.textContent.slice(0, 40)}: outline ${outlineStyle} ${outlineWidth}, opacity ${opacity}, on top ${isOnTop}`;
};

export const focus = async () => {
  const some = ["body", "upload", "tag"];
  for (const width of full ? [1400, 390] : [1400]) {
    const page = await open({ viewport: { width, height: 900 }, reducedMotion: "reduce" });
    for (const [name, show] of shapes.filter(([shape]) => some.includes(shape) || (full && shape !== "roles"))) {
      await show(page);
      await page.waitForSelector(".tools >> text=Sign in", { state: "attached" });
      let count = 0;
      for (; count < 1500; count++) {
        await page.keyboard.press("Tab");
        const hidden = await page.evaluate(hiddenFocus);
        if (hidden === "end") break;
        assert.equal(hidden, null, `${name}, ${width} pixels`);
      }
      assert.ok(count > 5 && count < 1500, `${name}: ${count} elements have the focus`);
    }
    await page.context().close();
  }
  console.log("the focus is visible");
};
