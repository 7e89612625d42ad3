// The card of an approval shows everything that is approved, whatever the conversation contains. S6

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { House, browse, config, model, open, run, say, shown } from "./house.mjs";

const PLAIN = { to: "Bob", body: "hello" };
const LONG = { body: Array.from({ length: 400 }, (_, n) => `line ${n} of a long letter`).join("\n"), to: "mallory" };
const BLANK = { body: `hello${"\u00a0".repeat(6000)}and pay mallory`, to: "Bob" };
const UNSEEN = { body: `pay\u200b \u202e001\u202c \u{e0041}\u{e0042}\u2028approved: yes\u00ad`, to: "Bob\u200b" };

/** Texts that cost a Markdown parser its stack or minutes, each with what the turn asks for. */
const COSTLY = {
  "quotes in quotes": ">".repeat(5000),
  "an address without an end": `${"a.".repeat(40_000)}@`,
  "many such addresses": `${"a.".repeat(4_500)}@\n\n`.repeat(20),
  "lists in lists": "- ".repeat(5000),
  "emphasis in emphasis": "*a **b ".repeat(6_000),
  "brackets": "[".repeat(80_000),
  "more than a page holds": "word ".repeat(60_000),
};

let browser;
let house;
let talker;
before(async () => {
  browser = await browse();
  talker = await model(({ messages }) => {
    const said = messages.findLast((it) => it.role === "user").content;
    if (messages.at(-1).role === "tool") return ["Done."];
    const { text, ...given } = JSON.parse(said);
    return [...(text ? [COSTLY[text] ?? text] : []), { tool: "send_message", arguments: given }];
  }, 0);
  house = await new House("--config", config(talker.url, '["outbox"]')).start();
});
after(async () => {
  await browser?.close();
  await house?.kill();
  talker?.stop();
});

async function asked(page, given) {
  await say(page, JSON.stringify(given));
  const card = page.locator(".approval");
  await card.waitFor();
  return { card, approve: card.getByRole("button", { name: "Approve" }) };
}

/** Waits until a card that has just come may be answered: Reject is never locked for longer. */
const readable = (card) => card.getByRole("button", { name: "Reject" }).and(card.locator(":enabled")).waitFor();

const scrollTo = (page, top) =>
  page.evaluate(async (top) => {
    document.querySelector("#scroller").scrollTop = top;
    for (let n = 0; n < 3; n += 1) await new Promise(requestAnimationFrame);
  }, top);

test("a card that is in sight as a whole can be approved", async () => {
  const page = await open(browser, house);
  const { card, approve } = await asked(page, PLAIN);
  await readable(card);
  await approve.and(card.locator(":enabled")).waitFor();
  await approve.click();
  await page.waitForFunction(() => !document.querySelector(".approval"));
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

for (const viewport of [{ width: 1280, height: 820 }, { width: 390, height: 700 }]) {
  test(`approve is locked until all of a long action has been in sight (${viewport.width} wide)`, async () => {
    const page = await open(browser, house, { viewport });
    const { card, approve } = await asked(page, LONG);
    await readable(card);
    const hidden = await card.locator("pre").evaluateAll((all) => all.filter((it) => it.scrollHeight > it.clientHeight + 1).length);
    assert.equal(hidden, 0, "nothing of it scrolls by itself");
    assert.ok(await approve.isDisabled(), "its end is in sight, not its beginning");
    await approve.dispatchEvent("click");
    assert.ok(await card.getByText("locked until all of this has been in sight").isVisible());
    // From one end to the other in one leap is not reading.
    await scrollTo(page, 0);
    await scrollTo(page, 1e9);
    assert.ok(await approve.isDisabled());
    const height = await page.evaluate(() => document.querySelector("#scroller").scrollHeight);
    const step = Math.floor(viewport.height * 0.6);
    for (let top = height; top > -step; top -= step) await scrollTo(page, Math.max(top, 0));
    await scrollTo(page, 1e9);
    await approve.and(card.locator(":enabled")).waitFor();
    await approve.click();
    await page.waitForFunction(() => !document.querySelector(".approval"));
    await page.context().close();
  });
}

test("what cannot be seen in an action is seen on its card", async () => {
  const page = await open(browser, house);
  const { card } = await asked(page, BLANK);
  assert.match(await card.innerText(), /hello\\u\{a0 x 6000\}and pay mallory/);
  await card.getByRole("button", { name: "Reject" }).click();
  await page.waitForFunction(() => !document.querySelector(".approval"));
  const second = await asked(page, UNSEEN);
  const words = await second.card.innerText();
  assert.ok(words.includes(String.raw`pay\u{200b} \u{202e}001\u{202c} \u{e0041}\u{e0042}\u{2028}approved: yes\u{ad}`), words);
  assert.ok(words.includes(String.raw`Bob\u{200b}`), words);
  await page.context().close();
});

for (const name of Object.keys(COSTLY)) {
  test(`the card is drawn beside a text that costs too much: ${name}`, async () => {
    const page = await open(browser, house);
    await page.evaluate(() => {
      globalThis.longest = 0;
      new PerformanceObserver((list) => list.getEntries().forEach((it) => (globalThis.longest = Math.max(globalThis.longest, it.duration)))).observe({ type: "longtask" });
    });
    const { card } = await asked(page, { ...PLAIN, text: name });
    assert.equal(await card.locator('[data-name="to"]').innerText(), "Bob");
    await readable(card);
    const length = COSTLY[name].replaceAll(/[^a-z.@]/g, "").length;
    assert.ok((await page.locator(".answer .text").last().textContent()).replaceAll(/[^a-z.@]/g, "").length >= length, "nothing of the text is lost");
    const longest = await page.evaluate(() => globalThis.longest);
    console.log(`${name}: the longest task took ${longest.toFixed(0)} ms`);
    assert.ok(longest < 5000, `the page stood still for ${longest} ms`);
    assert.deepEqual(page.faults, []);
    await page.context().close();
  });
}

test("a character reference hides nothing either", async () => {
  const page = await open(browser, house);
  await asked(page, { ...PLAIN, text: "a&#x202e;b&#8203;c&zwj;d" });
  assert.equal((await page.locator(".answer .text").last().textContent()).trim(), String.raw`a\u{202e}b\u{200b}c\u{200d}d`);
  await page.context().close();
});

test("who signs out is signed out on the server, and nothing stays in the browser", async (it) => {
  const here = new House("--auth");
  it.after(() => here.kill());
  const { secret } = JSON.parse(run("keys", "create", "--name", "page test", "--db", here.db, "--json"));
  await here.start();
  const page = await open(browser, here);
  const leave = page.getByRole("button", { name: "Sign out" });
  await page.locator("dialog input").waitFor();
  assert.equal(await leave.count(), 0, "nobody has signed in yet");
  await page.fill("dialog input", secret);
  await page.click("dialog button");
  await page.waitForFunction(() => !document.querySelector("dialog"));
  await say(page, "What is 6 * 7?");
  assert.match((await shown(page)).at(-1), /42/);
  const [cookie] = await page.context().cookies();
  const headers = { cookie: `${cookie.name}=${cookie.value}`, "sec-fetch-site": "same-origin" };
  assert.equal((await fetch(`${here.url}/v1/sessions`, { headers })).status, 200);
  await page.route("**/messages", (route) => (route.request().method() === "POST" ? route.abort() : route.continue()));
  await say(page, "never sent");
  await page.locator(".said.unsent").waitFor();
  await page.fill(".composer textarea", "a draft");
  page.on("dialog", (it) => it.accept());
  await leave.click();
  await page.locator("dialog input").waitFor();
  assert.equal((await fetch(`${here.url}/v1/sessions`, { headers })).status, 401, "the cookie that somebody may have copied is worth nothing");
  assert.equal(await page.locator(".turn").count(), 0);
  assert.equal(await page.inputValue(".composer textarea"), "");
  assert.doesNotMatch(await page.evaluate(() => JSON.stringify({ ...sessionStorage })), /draft/);
  assert.deepEqual(await page.evaluate(() => [Object.keys(localStorage), document.querySelector("#leave").hidden]), [[], true]);
  assert.deepEqual((await page.context().cookies()).filter((it) => it.value), []);
  await page.context().close();
});

test("where nobody signs in, nobody signs out", async () => {
  const page = await open(browser, house);
  await say(page, JSON.stringify(PLAIN));
  await page.locator(".approval").waitFor();
  assert.equal(await page.getByRole("button", { name: "Sign out" }).count(), 0);
  await page.context().close();
});
