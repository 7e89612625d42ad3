// Approvals from question to answer: the card, the state of each call, and the decisions, also of other conversations.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { House, axe, browse, config, model, open, run, say, sessionOf, shown } from "./house.mjs";

const LETTER = "Dear Bob,\n\n  the bill is paid:\n\t1. in full\n  2. in time\nto: mallory\n";
const LETTER_TO_BOB = { to: "Bob", body: LETTER };

let browser;
let house;
let talker;
before(async () => {
  browser = await browse();
  talker = await model(({ messages }) => {
    const answers = messages.slice(messages.findLastIndex((message) => message.role === "user") + 1).filter((message) => message.role === "tool");
    if (answers.length > 0) return [`Done: ${answers.map((message) => message.content).join(" ")}`];
    const content = messages.findLast((message) => message.role === "user").content;
    if (!content.startsWith("{")) return [{ status: 400 }];
    const { text, calls } = JSON.parse(content);
    return [...(text ? [text] : []), ...calls];
  }, 0);
  const more = 'approval = { ask = ["destructive"], expires = "24h" }\n';
  house = await new House("--config", config(talker.url, '["outbox", "calculator"]', more)).start();
});
after(async () => {
  await browser?.close();
  await house?.kill();
  talker?.stop();
});

const mail = (to, body = "hello") => ({ tool: "send_message", arguments: { to, body } });
const sum = { tool: "calculator", arguments: { expression: "6 * 7" } };
const ask = (page, calls, text) => say(page, JSON.stringify({ calls, text }));
const states = (page) => page.locator(".call .state").allInnerTexts();
const button = (page, name) => page.locator(".approval").getByRole("button", { name });
const noCard = (page) => page.waitForFunction(() => !document.querySelector(".approval"));

// U4, U5
test("of several calls only those that ask are counted, and each says how it stands", async () => {
  const page = await open(browser, house);
  await ask(page, [sum, mail("Ann"), sum, mail("Bob")]);
  await page.locator(".approval").getByText("1 of 2").waitFor();
  assert.deepEqual(await states(page), ["not started yet", "waits for your answer", "not started yet", "not started yet"]);
  await button(page, "Approve").click();
  await page.locator(".approval").getByText("2 of 2").waitFor();
  assert.deepEqual(await states(page), ["not started yet", "answered", "not started yet", "waits for your answer"]);
  await page.reload();
  await page.locator(".approval").getByText("2 of 2").waitFor();
  await page.waitForFunction(() => [...document.querySelectorAll(".call .state")].map((state) => state.textContent).join() === "not started yet,answered,not started yet,waits for your answer");
  await button(page, "Reject").click();
  await noCard(page);
  await shown(page);
  assert.deepEqual(await states(page), ["done", "done", "done", "not run"]);
  await page.context().close();
});

test("a button stays where it is while the pointer presses it, and near the end of the conversation", async () => {
  const page = await open(browser, house);
  await page.setViewportSize({ width: 1000, height: 460 });
  await ask(page, [mail("Ann", LETTER.repeat(3))]);
  const approve = button(page, "Approve");
  await approve.waitFor();
  const scroller = page.locator(".scroll", { has: page.locator("article.turn") });
  const frames = () => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done)))));
  const goTo = async (fromEnd) => {
    await scroller.evaluate((element, left) => (element.scrollTop = element.scrollHeight - element.clientHeight - left), fromEnd);
    await frames();
    return scroller.evaluate((element) => Math.round(element.scrollHeight - element.clientHeight - element.scrollTop));
  };
  for (let left = 1000; left >= 100; left -= 100) await goTo(left);
  await approve.and(page.locator(":enabled")).waitFor();
  assert.equal(await goTo(100), 100);
  assert.equal(await goTo(30), 30, "a reader near the end is not moved");
  const grow = () => page.locator("article.turn").last().evaluate((turn) => turn.append(Object.assign(document.createElement("p"), { textContent: "more", style: "height: 90px" })));
  const box = await approve.boundingBox();
  await page.mouse.move(box.x + 5, box.y + 5);
  await page.mouse.down();
  await grow();
  await frames();
  assert.deepEqual(await approve.boundingBox(), box, "nothing moves under a pressed pointer");
  await page.mouse.up();
  await noCard(page);
  // Another button of the mouse opens a menu, after which no release may come.
  await page.mouse.down({ button: "right" });
  await goTo(0);
  await grow();
  await frames();
  const left = () => scroller.evaluate((element) => Math.round(element.scrollHeight - element.clientHeight - element.scrollTop));
  assert.equal(await left(), 0);
  // The event of an earlier scroll comes after content has grown: the reader did not leave the end.
  await scroller.evaluate((element) => {
    const turn = [...element.querySelectorAll("article.turn")].at(-1);
    turn.append(Object.assign(document.createElement("p"), { textContent: "more", style: "height: 90px" }));
    element.dispatchEvent(new Event("scroll"));
  });
  await frames();
  assert.equal(await left(), 0, "it is still followed");
  const away = await goTo(300);
  await grow();
  await frames();
  const now = await left();
  assert.ok(away > 48 && now > away, `who has scrolled upwards is not moved: ${away}, ${now} pixels from the end`);
  await page.context().close();
});

// U6, S6
test("the card shows texts as texts, why the agent asks, what the tool is, and how long it can be answered", async () => {
  const page = await open(browser, house);
  await ask(page, [mail("Bob", LETTER)], "Bob wants to know about the bill.");
  const card = page.locator(".approval");
  await card.waitFor();
  const body = card.locator('[data-name="body"]');
  assert.equal(await body.locator("pre").textContent(), LETTER.replace("\t", "\\u{9}"));
  assert.match(await body.innerText(), /ends with blanks or line breaks/);
  assert.equal(await card.locator('[data-name="to"]').innerText(), "Bob");
  assert.deepEqual(await card.locator("dt").allInnerTexts(), ["body", "to"], "a line of a text is no argument");
  assert.match(await card.locator(".why").innerText(), /Bob wants to know about the bill\./);
  assert.match(await card.locator(".description").innerText(), /What the tool says about itself\s+\S/);
  assert.match(await card.locator(".expiry").innerText(), /Expires (in 24 hr|tomorrow|in 1 day)/);
  assert.ok(await card.locator("details pre").isHidden());
  await card.getByText("The same as JSON").click();
  assert.deepEqual(JSON.parse(await card.locator("details pre").textContent()), LETTER_TO_BOB);
  // The card names the MCP server of a tool; invisible characters in that name are shown as escapes.
  await page.route("**/sessions/*/pending", async (route) => {
    const response = await route.fetch();
    const json = await response.json();
    for (const wait of json.items) wait.metadata.server = "ma\u202eil";
    await route.fulfill({ response, json });
  });
  await page.reload();
  await page.locator(".approval .server", { hasText: String.raw`A tool of the MCP server “ma\u{202e}il”.` }).waitFor();
  await page.unrouteAll();
  await button(page, "Reject").click();
  await noCard(page);
  await page.context().close();
});

// U6
test("the reason of a rejection reaches the agent, and the conversation says who decided what", async () => {
  const here = new House("--auth", "--config", config(talker.url, '["outbox"]'));
  const { secret } = JSON.parse(run("keys", "create", "--name", "Ann", "--db", here.db, "--json"));
  const id = secret.split("_")[1];
  await here.start();
  const page = await open(browser, here);
  await page.fill("dialog input", secret);
  await page.click("dialog button");
  await page.waitForFunction(() => !document.querySelector("dialog"));
  await ask(page, [mail("Eve"), mail("Bob")]);
  await page.locator(".approval textarea").fill("Eve has left");
  await button(page, "Reject").click();
  await page.locator(".approval").getByText("2 of 2").waitFor();
  await button(page, "Approve").click();
  await noCard(page);
  assert.match((await shown(page)).at(-1), /"reason":"Eve has left"[\s\S]*Sent/);
  for (const isReloaded of [false, true]) {
    if (isReloaded) await page.reload();
    await page.locator(".decision", { hasText: "by" }).nth(1).waitFor();
    const decisions = await page.locator(".decision").allInnerTexts();
    assert.match(decisions[0], new RegExp(`^Rejected by ${id}, .*\\d.*: Eve has left$`));
    assert.match(decisions[1], new RegExp(`^Approved by ${id}, .*\\d`));
  }
  await page.context().close();
  await here.kill();
});

// U6, D37
test("an approval whose time is over cannot be answered any more, and says so", async () => {
  const page = await open(browser, house, { clock: true });
  await ask(page, [mail("Bob")]);
  await page.locator(".approval").waitFor();
  await page.clock.fastForward("25:00:00");
  await page.locator(".approval", { hasText: "The time to answer is over." }).waitFor();
  assert.ok(await button(page, "Approve").isDisabled() && (await button(page, "Reject").isDisabled()));
  await page.context().close();
});

test("after an answer the focus stays in the conversation", async () => {
  const page = await open(browser, house);
  await ask(page, [mail("Ann"), mail("Bob")]);
  await page.locator(".approval .primary:enabled").waitFor();
  await button(page, "Approve").focus();
  await page.keyboard.press("Enter");
  await page.locator(".approval").getByText("2 of 2").waitFor();
  await page.waitForFunction(() => document.activeElement.closest("main"));
  await page.locator(".approval .primary:enabled").waitFor();
  await button(page, "Approve").focus();
  await page.keyboard.press("Enter");
  await noCard(page);
  await shown(page);
  assert.ok(await page.evaluate(() => Boolean(document.activeElement.closest("main"))), "the focus fell to the body");
  await page.context().close();
});

test("while a question waits the form says so, keeps what was typed, and sends it afterwards", async () => {
  const page = await open(browser, house);
  await ask(page, [mail("Bob")]);
  await page.locator(".approval").waitFor();
  await page.locator('.composer textarea[placeholder="Answer the question first"]').waitFor();
  const after = JSON.stringify({ calls: [], text: "And then?" });
  await say(page, after);
  await page.locator("#status", { hasText: "Answer the question above first. Your message stays here." }).waitFor();
  assert.equal(await page.inputValue(".composer textarea"), after);
  assert.equal(await page.locator(".said").count(), 1);
  await button(page, "Approve").click();
  await noCard(page);
  await shown(page);
  await page.press(".composer textarea", "Enter");
  await page.waitForFunction(() => document.querySelectorAll(".said").length === 2);
  await page.context().close();
});

test("a message that was refused while a question waited says so, and not after the answer that it still waits", async () => {
  const page = await open(browser, house);
  await ask(page, [mail("Bob")]);
  await page.locator(".approval").waitFor();
  const body = JSON.stringify({ content: "from elsewhere" });
  await house.json(`/v1/sessions/${sessionOf(page)}/messages`, { method: "POST", headers: { "content-type": "application/json" }, body }).catch(() => {});
  const note = page.locator(".turned-back");
  await note.getByText("Not sent: this conversation was waiting for an answer to a question. Answer the question first.").waitFor();
  await button(page, "Approve").click();
  await noCard(page);
  await shown(page);
  for (const isReloaded of [false, true]) {
    if (isReloaded) await page.reload();
    await note.waitFor();
    await page.waitForFunction(() => document.querySelector(".turned-back").textContent === "Not sent: this conversation was waiting for an answer to a question.");
  }
  await page.context().close();
});

test("where messages wait for the answer, they can be sent before it", async () => {
  const here = await new House("--config", config(talker.url, '["outbox"]', 'while_suspended = "queue"\n')).start();
  const page = await open(browser, here);
  await ask(page, [mail("Bob")]);
  await page.locator(".approval").waitFor();
  await ask(page, [], "Afterwards.");
  await page.locator(".queued .note", { hasText: "Waits until the question above is answered" }).waitFor();
  await button(page, "Approve").click();
  await page.waitForFunction(() => /Afterwards\.$/.test([...document.querySelectorAll(".answer .text")].at(-1)?.innerText.trim()));
  await page.context().close();
  await here.kill();
});

// U3
test("an approval in another conversation is told within two seconds, and so is its answer", async () => {
  const here = await new House("--config", config(talker.url, '["outbox"]')).start();
  const post = (path, body) => here.json(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const page = await open(browser, here);
  const second = await page.context().newPage();
  await second.goto(here.url);
  for (const one of [page, second]) await one.locator("#empty").waitFor();
  const { wait } = await post("/v1/sessions/other/messages", { content: JSON.stringify({ calls: [mail("Bob")] }) });
  const within = process.env.SINGLETREE_DEEP ? { timeout: 2000 } : {};
  for (const one of [page, second]) {
    await one.waitForFunction(() => document.title.startsWith("(1)"), null, within);
    await one.locator(".sessions .badge", { hasText: "waits for you" }).waitFor(within);
  }
  await page.locator("#status", { hasText: "Another conversation waits for your answer" }).waitFor(within);
  await post(`/v1/sessions/other/signals/${wait.signal}`, { payload: { approved: false }, wait: wait.number, action: wait.action });
  for (const one of [page, second]) {
    await one.waitForFunction(() => document.title === "singletree", null, within);
    await one.waitForFunction(() => !document.querySelector(".badge"), null, within);
  }
  await page.context().close();
  await here.kill();
});

test("failures, decisions, cards and editing are accessible in light and dark", async () => {
  for (const colorScheme of ["light", "dark"]) {
    const page = await open(browser, house, { colorScheme, bypassCSP: true });
    await ask(page, [mail("Ann")]);
    await button(page, "Reject").click();
    await noCard(page);
    await shown(page);
    await say(page, "this is no JSON, so the model fails");
    await ask(page, [mail("Bob", LETTER)], "Why not?");
    await page.locator(".approval .primary:enabled").waitFor();
    await page.locator(".said").first().hover();
    await page.getByRole("button", { name: "Edit and continue in a copy" }).first().click();
    await page.addScriptTag({ path: axe() });
    const { violations } = await page.evaluate(() => axe.run());
    const grave = violations.filter((violation) => violation.impact === "serious" || violation.impact === "critical");
    assert.deepEqual(grave.map((violation) => `${violation.id}: ${violation.nodes.map((node) => node.target)}`), [], colorScheme);
    await page.context().close();
  }
});
