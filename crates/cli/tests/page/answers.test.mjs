// The page during an answer, from sending to the end, including failure, stop and reload.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { House, browse, config, folder, model, open, say, sessionOf, shown } from "./house.mjs";

/** The smallest PNG. */
const PIXEL = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");

let browser;
let house;
let talker;
/** Scripts of the test model, by the text of the last user message. */
const scripts = new Map();
before(async () => {
  browser = await browse();
  talker = await model(({ messages }) => {
    const content = messages.findLast((message) => message.role === "user").content;
    const text = typeof content === "string" ? content : content.find((block) => block.type === "text").text;
    return scripts.get(text)?.(messages) ?? [`You wrote: ${text}`];
  }, 0);
  house = await new House("--config", config(talker.url, '["calculator"]', "show_thinking = true\n")).start();
});
after(async () => {
  await browser?.close();
  await house?.kill();
  talker?.stop();
});

/** A promise and the function that keeps it. */
function gate() {
  let open;
  return { until: new Promise((resolve) => (open = resolve)), open: () => open() };
}

const stopButton = (page) => page.getByRole("button", { name: "Stop", exact: true });

// U1
test("an answer is awaited visibly from the first moment, before the server has said anything, and can be stopped", async () => {
  const [request, answer] = [gate(), gate()];
  scripts.set("slow", () => [{ until: answer.until }, "At last."]);
  const page = await open(browser, house);
  await page.locator("#empty").waitFor();
  assert.ok(await stopButton(page).isHidden());
  await page.route("**/v1/sessions**", async (route) => (route.request().method() === "POST" && (await request.until), route.continue()));
  const after = await page.evaluate(async () => {
    const field = document.querySelector(".composer textarea");
    field.value = "slow";
    const began = performance.now();
    field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
    const isShown = () => document.querySelector(".working") && !document.querySelector('[aria-label="Stop"]').hidden;
    while (!isShown() && performance.now() - began < 10_000) await new Promise(requestAnimationFrame);
    return isShown() ? performance.now() - began : Infinity;
  });
  assert.ok(after < 10_000);
  console.log(`a sent message shows that it is worked on after ${after.toFixed(0)} ms`);
  if (process.env.SINGLETREE_TIMED) assert.ok(after <= 100, `${after} ms`);
  request.open();
  await page.waitForFunction(() => !document.querySelector(".unsent"));
  for (const isReloaded of [false, true]) {
    if (isReloaded) await page.reload();
    await page.locator(".working").waitFor();
    assert.equal(await page.locator(".said .note, .queued").count(), 0, "it does not wait for anything");
    await stopButton(page).waitFor();
  }
  await page.keyboard.press("Escape");
  await page.getByText("Stopped.", { exact: true }).first().waitFor();
  await page.waitForFunction(() => !document.querySelector(".working"));
  assert.ok(await stopButton(page).isHidden());
  answer.open();
  await page.context().close();
});

// U1
test("a message that was stopped before the server accepted it is cancelled when it is accepted", async () => {
  const [request, answer] = [gate(), gate()];
  scripts.set("stop me early", () => [{ until: answer.until }, "Too late."]);
  const page = await open(browser, house);
  await page.locator("#empty").waitFor();
  await page.route("**/messages", async (route) => (route.request().method() === "POST" && (await request.until), route.continue()));
  await say(page, "stop me early");
  await page.locator(".unsent").waitFor();
  await stopButton(page).click();
  request.open();
  await page.getByText("Stopped.", { exact: true }).first().waitFor();
  answer.open();
  await page.context().close();
});

// U1, D36
test("a model call that is tried again says so, with the time", async () => {
  let calls = 0;
  const answer = gate();
  scripts.set("busy", () => {
    calls += 1;
    return calls === 1 ? [{ status: 429, headers: { "retry-after": "2" } }] : [{ until: answer.until }, "Here I am."];
  });
  const page = await open(browser, house);
  await say(page, "busy");
  const note = page.locator(".retrying");
  await note.waitFor();
  assert.match(await note.innerText(), /The model service is busy\.[\s\S]*Trying again/);
  assert.ok(await stopButton(page).isVisible());
  answer.open();
  assert.equal((await shown(page)).at(-1), "Here I am.");
  assert.equal(await note.count(), 0);
  await page.context().close();
});

test("a message that steers is shown once: before the answer to it, while it comes, after a reload, and afterwards", async () => {
  const [looks, hears] = [gate(), gate()];
  scripts.set("look", () => [{ until: looks.until }, { tool: "calculator", arguments: { expression: "1+1" } }]);
  scripts.set("hm", () => ["I heard", { until: hears.until }, " you."]);
  const page = await open(browser, house);
  const texts = () => page.$$eval(".text", (all) => all.map((it) => it.innerText.trim()));
  await say(page, "look");
  await page.locator(".composer textarea[placeholder*='at its next step']").waitFor();
  await say(page, "hm");
  await page.locator(".queued", { hasText: "The agent reads it at its next step" }).waitFor();
  looks.open();
  await page.locator(".answer .text", { hasText: "I heard" }).waitFor();
  assert.deepEqual(await texts(), ["look", "hm", "I heard"]);
  await page.reload();
  await page.locator(".answer .text", { hasText: "I heard" }).waitFor();
  assert.deepEqual(await texts(), ["look", "hm", "I heard"]);
  hears.open();
  assert.deepEqual(await shown(page), ["look", "hm", "I heard you."]);
  await page.reload();
  assert.deepEqual(await shown(page), ["look", "hm", "I heard you."]);
  assert.deepEqual([page.faults, page.foreign], [[], []]);
  await page.context().close();
});

// U1, D36
test("an answer that begins anew after the server was killed says so", async () => {
  const answers = [gate(), gate()];
  let calls = 0;
  const here = await model(() => ["The beginning of it", { until: answers[calls++].until }, " and the end."], 0);
  const killed = await new House("--config", config(here.url)).start();
  const page = await open(browser, killed);
  await say(page, "tell me");
  await page.locator(".on-its-way .text", { hasText: "The beginning" }).waitFor();
  await killed.kill();
  await killed.start();
  await page.locator(".restarted", { hasText: "starts again" }).waitFor();
  answers[0].open();
  answers[1].open();
  assert.equal((await shown(page)).at(-1), "The beginning of it and the end.");
  await page.waitForFunction(() => !document.querySelector(".restarted"));
  await page.context().close();
  await killed.kill();
  here.stop();
});

const attach = (page, name) => page.locator(".composer input[type=file]").setInputFiles({ name, mimeType: "image/png", buffer: PIXEL });

// U2, U7
test("a failed message stays with its image, its partial answer and its error, and can be tried again with the image", async () => {
  let calls = 0;
  scripts.set("look", () => (calls++ === 0 ? [{ status: 400 }] : ["A pixel."]));
  const page = await open(browser, house);
  await say(page, "first");
  await shown(page);
  const session = sessionOf(page);
  await attach(page, "pixel.png");
  await page.locator(".chip").waitFor();
  await say(page, "look");
  await page.locator(".failure").waitFor();
  const failed = async () => {
    await page.locator(".failure").waitFor();
    await page.locator(".said img").waitFor();
    assert.deepEqual(await page.$$eval(".text", (all) => all.map((text) => text.innerText.trim())), ["first", "You wrote: first", "look"]);
    await page.locator(".failure summary").click();
    assert.match(await page.locator(".failure").innerText(), /provider_/);
  };
  await failed();
  await page.reload();
  await failed();
  await page.click("#new");
  await page.locator("#empty").waitFor();
  await page.evaluate((id) => (location.hash = `#/s/${id}`), session);
  await failed();
  await page.getByRole("button", { name: "Try again" }).click();
  await page.locator(".answer .text", { hasText: "A pixel." }).waitFor();
  await shown(page);
  const { items } = await house.json(`/v1/sessions/${session}/messages`);
  assert.equal(items.at(-2).content.filter((block) => block.type === "image").length, 1, "the image was sent again");
  assert.equal(await page.getByRole("button", { name: "Try again" }).count(), 0);
  await page.reload();
  await page.locator(".failure", { hasText: "tried again below" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Try again" }).count(), 0);
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

// U2
test("the part of an answer that was shown stays when the answer fails, also after a reload", async () => {
  const demo = await new House().start();
  const page = await open(browser, demo);
  await say(page, "fail halfway");
  for (const isReloaded of [false, true]) {
    if (isReloaded) await page.reload();
    await page.locator(".failure").waitFor();
    assert.match(await page.locator(".answer").innerText(), /I begin to answer, and then\s+This answer is not complete\./);
    assert.equal(await page.locator(".said .text").innerText(), "fail halfway");
  }
  await page.locator(".sessions .title", { hasText: "fail halfway" }).waitFor();
  // A copy could not begin with it: it is not part of the history.
  const session = sessionOf(page);
  await page.locator(".said").hover();
  await page.getByRole("button", { name: "Edit and send again" }).click();
  await page.locator(".editing", { hasText: "a new message" }).waitFor();
  assert.equal(await page.inputValue(".composer textarea"), "fail halfway");
  await say(page, "what is 6 * 7");
  await page.locator(".answer", { hasText: "42" }).waitFor();
  assert.equal(sessionOf(page), session);
  await page.context().close();
  await demo.kill();
});

// U16, D36
test("thinking is shown folded, while it happens and afterwards", async () => {
  const answer = gate();
  scripts.set("think", () => [{ thinking: "First I look. " }, { thinking: "Then I leap." }, { until: answer.until }, "Leaping."]);
  const page = await open(browser, house);
  await say(page, "think");
  const thinking = page.locator("details.thinking");
  await thinking.waitFor();
  assert.equal(await thinking.evaluate((details) => details.open), false);
  await thinking.locator("summary").click();
  await thinking.getByText("First I look. Then I leap.").waitFor();
  answer.open();
  assert.equal((await shown(page)).at(-1), "Leaping.");
  assert.ok(await thinking.evaluate((details) => details.open), "what was unfolded stays so");
  await page.reload();
  await thinking.waitFor();
  assert.equal(await thinking.evaluate((details) => details.open), false);
  assert.match(await thinking.textContent(), /First I look\. Then I leap\./);
  await page.context().close();
});

test("an answer that the model cut off says so, also after a reload", async () => {
  const page = await open(browser, house);
  for (const [reason, words] of [["length", "length limit"], ["content_filter", "content filter"]]) {
    scripts.set(reason, () => ["This is the beginning", { finish: reason }]);
    await say(page, reason);
    await page.locator(".unfinished", { hasText: words }).waitFor();
  }
  await page.reload();
  await page.locator(".unfinished").nth(1).waitFor();
  assert.equal(await page.locator(".unfinished").count(), 2);
  await page.context().close();
});

test("a tool that failed is shown as failed, also after a reload", async () => {
  scripts.set("divide", (messages) => (messages.at(-1).role === "tool" ? ["It failed."] : [{ tool: "calculator", arguments: { expression: "1 / 0" } }]));
  const page = await open(browser, house);
  await say(page, "divide");
  for (const isReloaded of [false, true]) {
    if (isReloaded) await page.reload();
    await page.locator(".call.failed .state", { hasText: "failed" }).waitFor();
  }
  await page.context().close();
});

// U7
test("an image that is picked before the page knows its conversation belongs to that conversation", async () => {
  const page = await open(browser, house);
  let go;
  const gate = new Promise((resolve) => (go = resolve));
  await page.route("**/v1/agents", async (route) => (await gate, route.continue()));
  const uploads = [];
  page.on("request", (request) => request.method() === "POST" && uploads.push(new URL(request.url()).pathname));
  await page.reload();
  await attach(page, "early.png");
  go();
  await page.locator(".chip", { hasText: "early.png" }).waitFor();
  await say(page, "with an early image");
  await shown(page);
  assert.equal(uploads[0], `/v1/sessions/${sessionOf(page)}/blobs`);
  assert.equal(await page.locator(".said img").count(), 1);
  await page.context().close();
});

// U7, U8
test("an edit keeps the images, and is left by Escape, by its button, and by opening another conversation", async () => {
  const page = await open(browser, house);
  await attach(page, "pixel.png");
  await page.locator(".chip").waitFor();
  await say(page, "with an image");
  await shown(page);
  const first = sessionOf(page);
  await page.fill(".composer textarea", "a draft");
  const edit = async () => {
    await page.locator(".said").hover();
    await page.getByRole("button", { name: "Edit and continue in a copy" }).click();
    await page.locator(".editing").waitFor();
    assert.equal(await page.inputValue(".composer textarea"), "with an image");
    assert.equal(await page.locator(".chip").count(), 1);
  };
  const left = async () => {
    await page.locator(".editing").waitFor({ state: "hidden" });
    assert.equal(await page.inputValue(".composer textarea"), "a draft");
    assert.equal(await page.locator(".chip").count(), 0);
  };
  await edit();
  await page.keyboard.press("Escape");
  await left();
  await edit();
  await page.getByRole("button", { name: "Cancel editing" }).click();
  await left();
  await edit();
  await page.fill(".composer textarea", "");
  await page.getByRole("button", { name: "Remove image" }).click();
  await page.press(".composer textarea", "Enter");
  await left();
  await edit();
  await page.click("#new");
  await page.locator("#empty").waitFor();
  assert.ok(await page.locator(".editing").isHidden());
  await page.evaluate((id) => (location.hash = `#/s/${id}`), first);
  await page.locator(".said").waitFor();
  await left();
  await edit();
  await say(page, "otherwise");
  await page.waitForFunction((id) => !location.hash.includes(id), first);
  assert.deepEqual(await shown(page), ["otherwise", "You wrote: otherwise"]);
  await page.locator(".said img").waitFor();
  const { items } = await house.json(`/v1/sessions/${sessionOf(page)}/messages`);
  assert.equal(items[0].content.filter((block) => block.type === "image").length, 1);
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

// U9
test("a copy of a conversation has its title, is in the list at once, and leads back", async () => {
  const answer = gate();
  scripts.set("second version", () => [{ until: answer.until }, "Yes."]);
  const page = await open(browser, house);
  await say(page, "first version");
  await shown(page);
  const first = sessionOf(page);
  await page.locator(".said").hover();
  await page.getByRole("button", { name: "Edit and continue in a copy" }).click();
  await say(page, "second version");
  await page.waitForFunction((id) => !location.hash.includes(id), first);
  // It is not answered yet.
  await page.locator("h1", { hasText: "second version" }).waitFor();
  await page.locator(".sessions [aria-current] .title", { hasText: "second version" }).waitFor();
  assert.match(await page.locator(".sessions [aria-current] .about").innerText(), /^copy/);
  answer.open();
  await shown(page);
  await page.reload();
  await page.locator("h1", { hasText: "second version" }).waitFor();
  await page.getByRole("link", { name: "Back to the original" }).click();
  await page.locator("h1", { hasText: "first version" }).waitFor();
  assert.equal(sessionOf(page), first);
  assert.ok(await page.locator("#origin").isHidden());
  await page.context().close();
});

// U10
test("after the open conversation was deleted nothing says that the connection is lost", async () => {
  const page = await open(browser, house);
  await say(page, "to be deleted");
  await shown(page);
  const session = sessionOf(page);
  const other = await open(browser, house, { at: `/#/s/${session}` });
  await other.locator(".answer").waitFor();
  // The page has lost its stream when the conversation is deleted.
  await page.route("**/sessions/*/events", (route) => route.abort());
  await page.reload();
  await page.locator("#line", { hasText: "The connection is lost" }).waitFor();
  page.on("dialog", (dialog) => dialog.accept());
  const row = page.locator(".sessions li", { has: page.locator("[aria-current]") });
  await row.hover();
  await row.getByRole("button", { name: /^Delete/ }).click();
  await page.locator("#empty").waitFor();
  await other.locator("#status", { hasText: "This conversation was deleted." }).waitFor();
  for (const one of [page, other]) assert.ok(await one.locator("#line").isHidden());
  await page.unrouteAll();
  await say(page, "and on");
  assert.equal((await shown(page)).at(-1), "You wrote: and on");
  assert.ok(await page.locator("#line").isHidden());
  await Promise.all([page.context().close(), other.context().close()]);
});

// U11
test("the inspector says that the agent works while its model is silent, and why no events are listed", async () => {
  const answer = gate();
  scripts.set("inspect me", () => ["A word", { until: answer.until }, " and another."]);
  const page = await open(browser, house);
  await page.click("#inspect");
  await say(page, "inspect me");
  await page.locator(".on-its-way").waitFor();
  await page.locator(".panel .note", { hasText: /The agent is working|now:/ }).waitFor();
  answer.open();
  await shown(page);
  await page.locator(".panel .note", { hasText: "The agent is not working." }).waitFor();
  await page.reload();
  await shown(page);
  await page.click("#inspect");
  await page.getByRole("tab", { name: "Events" }).click();
  await page.locator(".panel .note", { hasText: "Events are listed here as they happen" }).waitFor();
  await page.context().close();
});

// U12
test("on a phone a tap beside the drawer closes it and does nothing else", async () => {
  const page = await open(browser, house, { viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true });
  await page.locator("#empty").waitFor();
  await page.click("#menu");
  await page.waitForFunction(() => document.body.classList.contains("drawer"));
  const { x, y, width, height } = await page.locator("#inspect").boundingBox();
  await page.touchscreen.tap(x + width / 2, y + height / 2);
  await page.waitForFunction(() => !document.body.classList.contains("drawer"));
  assert.equal(await page.evaluate(() => document.body.classList.contains("inspecting")), false, "the tap went through");
  await page.touchscreen.tap(x + width / 2, y + height / 2);
  await page.waitForFunction(() => document.body.classList.contains("inspecting"));
  await page.context().close();
});

// U13
test("numbers in tables stay whole, and columns are aligned as they say", async () => {
  const wide = "a rather long text that needs some room ".repeat(4);
  scripts.set("table", () => [`| item | number |\n|---|--:|\n| ${wide} | 1,204 |\n| ${wide} | 98,765.43 |\n\n7. seven\n8. eight\n`]);
  const page = await open(browser, house, { viewport: { width: 390, height: 780 } });
  await say(page, "table");
  await shown(page);
  const cells = await page.$$eval(".answer td:last-child", (all) =>
    all.map((cell) => {
      const range = document.createRange();
      range.selectNodeContents(cell);
      return [cell.textContent, range.getClientRects().length, getComputedStyle(cell).textAlign];
    }));
  assert.deepEqual(cells, [["1,204", 1, "end"], ["98,765.43", 1, "end"]]);
  assert.equal(await page.locator(".answer ol").getAttribute("start"), "7");
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await page.context().close();
});

test("a draft with its images survives a reload, and a file can be attached twice", async () => {
  const page = await open(browser, house);
  await page.locator("#empty").waitFor();
  const file = join(folder(), "same.png");
  writeFileSync(file, PIXEL);
  for (let n = 1; n <= 2; n += 1) {
    await page.locator(".composer input[type=file]").setInputFiles(file);
    await page.waitForFunction((count) => document.querySelectorAll(".chip").length === count, n);
  }
  assert.equal(await page.locator(".composer input[type=file]").evaluate((input) => input.files.length), 0, "the same file may be picked again");
  await page.fill(".composer textarea", "half a thought");
  await page.reload();
  await page.waitForFunction(() => document.querySelector(".composer textarea").value === "half a thought");
  assert.equal(await page.locator(".chip").count(), 2);
  await page.press(".composer textarea", "Enter");
  assert.deepEqual(await shown(page), ["half a thought", "You wrote: half a thought"]);
  assert.deepEqual(await page.evaluate(() => [Object.keys(sessionStorage), Object.keys(localStorage)]), [[], []]);
  await page.fill(".composer textarea", "more of it");
  await page.reload();
  await page.waitForFunction(() => document.querySelector(".composer textarea").value === "more of it");
  await page.context().close();
});

test("times in the list go on", async () => {
  const page = await open(browser, house, { clock: true });
  await say(page, "when was this");
  await shown(page);
  await page.locator(".sessions [aria-current] time", { hasText: /now|sec/ }).waitFor();
  // Nothing but the time changes them.
  await page.route("**/v1/sessions?**", (route) => route.abort());
  await page.clock.fastForward("05:10");
  await page.locator(".sessions [aria-current] time", { hasText: "5 min" }).waitFor();
  await page.context().close();
});

// U19
test("the page uses plain words", async () => {
  const page = await open(browser, house);
  await say(page, "words");
  await shown(page);
  const words = await page.evaluate(() => [document.body.innerText, ...[...document.querySelectorAll("[title], [aria-label], [placeholder]")].flatMap((one) => [one.title, one.ariaLabel, one.placeholder])].join("\n"));
  for (const word of [/\bfork/i, /\bblob/i, /\bturn\b/i, /\bpassing\b/i, /say something/i]) assert.doesNotMatch(words, word);
  await page.context().close();
});
