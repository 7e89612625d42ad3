// Narration and artifacts on the page, and conversations that take commands. INV-9, finding F5

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { House, axe, browse, open, say, sessionOf, shown } from "./house.mjs";

const shots = process.env.SINGLETREE_SHOTS;
if (shots) mkdirSync(shots, { recursive: true });
const shoot = async (page, name) => shots && (await page.screenshot({ path: join(shots, `${name}.png`) }));

let browser;
let house;
before(async () => {
  browser = await browse();
  house = await new House().start();
});
after(async () => {
  await browser?.close();
  await house?.kill();
});

const tab = (page, name) => page.getByRole("tab", { name }).click();
const pieces = (page) => page.$$eval(".narration li .as-it-is", (all) => all.map((it) => it.textContent));

async function inspect(page, name) {
  if (!(await page.locator("#inspector .tabs").isVisible())) await page.click("#inspect");
  await tab(page, name);
}

/** Serious findings of axe about what is shown. */
async function faultsOfAccess(page) {
  await page.evaluate(() => Promise.all(document.getAnimations().map((it) => it.finished.catch(() => {}))));
  const { violations } = await page.evaluate(() => axe.run());
  return violations.filter((it) => ["serious", "critical"].includes(it.impact)).map((it) => `${it.id}: ${it.nodes.map((node) => node.html).join(" ")}`);
}

test("a conversation that takes commands is marked, and what was narrated is told, cleared, and nothing else changes", async () => {
  const page = await open(browser, house);
  await page.selectOption("#policy", "command");
  await page.locator(".composer textarea[placeholder*=command]").waitFor();
  await say(page, "what time is it?");
  assert.match((await shown(page)).at(-1), /^It is .* \(UTC\)\.$/);
  assert.match(await page.innerText("#agent"), /takes commands/);
  await page.locator(".sessions .about", { hasText: "commands · " }).waitFor();
  const session = sessionOf(page);
  assert.equal((await house.json(`/v1/sessions/${session}`)).prompt_policy, "command");
  await say(page, "send hello to Bob");
  await page.locator(".approval .primary:enabled").waitFor();
  await inspect(page, "Narration");
  await page.locator(".narration .ask").waitFor();
  assert.match((await pieces(page)).at(-1), /^Approval is needed to use send_message \(.*\): \{"body":"hello","to":"Bob"\}$/);
  await page.locator(".approval").getByRole("button", { name: "Approve" }).click();
  await page.locator(".narration li", { hasText: "send_message succeeded." }).waitFor();
  await page.locator(".narration li", { hasText: "Done." }).last().waitFor();
  await shoot(page, "narration-light-desktop");
  const before = [await shown(page), await house.json(`/v1/sessions/${session}/messages`)];
  await page.getByRole("button", { name: "Clear the narration" }).click();
  await page.getByText("Cleared. The conversation is as it was.").waitFor();
  assert.deepEqual(await pieces(page), []);
  assert.deepEqual((await house.json(`/v1/sessions/${session}/narration`)).items, []);
  assert.deepEqual([await shown(page), await house.json(`/v1/sessions/${session}/messages`)], before);
  // What is said next is narrated anew, once.
  await say(page, "what is 1+1");
  await page.locator(".narration li", { hasText: "calculator succeeded." }).waitFor();
  const told = await pieces(page);
  assert.equal(new Set(await page.$$eval(".narration li", (all) => all.map((it) => it.dataset.id))).size, told.length);
  assert.deepEqual([page.faults, page.foreign], [[], []]);
  await page.context().close();
});

test("every conversation has its narration, and none has that of another", async () => {
  const page = await open(browser, house);
  await say(page, "what is 2+3");
  await inspect(page, "Narration");
  await page.locator(".narration li", { hasText: "The agent asks for calculator." }).waitFor();
  await page.click("#new");
  await say(page, "what time is it?");
  await page.locator(".narration li", { hasText: "clock succeeded." }).waitFor();
  assert.ok((await pieces(page)).every((it) => !it.includes("calculator")), "another conversation");
  await page.context().close();
});

test("an artifact is proposed, read to its end, approved, and shown to the agent with a command", async () => {
  const page = await open(browser, house);
  await page.selectOption("#policy", "command");
  await say(page, "what is approved?");
  assert.equal((await shown(page)).at(-1), "No artifact of this session is approved.");
  await inspect(page, "Artifacts");
  await page.fill(".propose [name=kind]", "letter");
  await page.fill(".propose [name=key]", "spring");
  // Long, and with characters that nobody sees.
  const content = `Dear\u202e all\n${"line\n".repeat(200)}end`;
  await page.fill(".propose textarea", content);
  await page.getByRole("button", { name: "Propose", exact: true }).click();
  const card = page.locator(".artifact");
  await card.waitFor();
  assert.match(await card.innerText(), /letter \/ spring, version 1[\s\S]*proposed by a person · not approved[\s\S]*Dear\\u\{202e\} all/);
  const approve = card.getByRole("button", { name: "Approve" });
  await page.waitForTimeout(300);
  assert.ok(await approve.isDisabled(), "nobody has seen its end");
  // An event redraws the panel; what was in sight stays known, and so does typed text.
  await page.fill(".propose textarea", "half a thought");
  for (let at = 0; await approve.isDisabled(); at += 200) {
    assert.ok(at < 20_000, "it is never seen whole");
    await page.$eval(".panel", (it, top) => it.scrollTo(0, top), at);
    await page.waitForTimeout(30);
  }
  await shoot(page, "artifact-light-desktop");
  await approve.click();
  await page.locator(".artifact", { hasText: "approved by" }).waitFor();
  assert.equal(await page.inputValue(".propose textarea"), "half a thought");
  const { items } = await house.json(`/v1/sessions/${sessionOf(page)}/artifacts`);
  assert.deepEqual([items.length, items[0].content, items[0].version, Boolean(items[0].approved_by)], [1, content, 1, true]);
  await say(page, "what is approved?");
  await page.waitForFunction(() => [...document.querySelectorAll(".text")].at(-1)?.innerText.includes("These artifacts are approved"));
  assert.deepEqual([page.faults, page.foreign], [[], []]);
  await page.context().close();
});

for (const [colorScheme, width, height, name] of [["light", 1280, 820, "desktop"], ["dark", 1280, 820, "desktop"], ["light", 390, 844, "phone"], ["dark", 390, 844, "phone"]]) {
  test(`narration and artifacts are accessible: ${colorScheme}, ${name}`, async () => {
    const page = await open(browser, house, { colorScheme, viewport: { width, height } });
    await page.addScriptTag({ path: axe() }).catch(() => {});
    await page.context().addInitScript({ path: axe() });
    await page.reload();
    await page.selectOption("#policy", "command");
    await say(page, "note: buy milk");
    await shown(page);
    const session = sessionOf(page);
    await house.json(`/v1/sessions/${session}/artifacts`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ kind: "letter", key: "spring", content: "Dear all" }) });
    for (const panel of ["Narration", "Artifacts"]) {
      await inspect(page, panel);
      await page.locator(panel === "Narration" ? ".narration li" : ".artifact").first().waitFor();
      await shoot(page, `${panel.toLowerCase()}-${colorScheme}-${name}`);
      assert.deepEqual(await faultsOfAccess(page), []);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "nothing stands beside the page");
    }
    await page.context().close();
  });
}
