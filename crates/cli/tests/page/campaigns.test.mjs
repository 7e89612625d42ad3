// Campaigns on the page, in a real browser, against the real server: acceptance 11 of campaigns. INV-9

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { House, axe, browse, config, model, open } from "./house.mjs";

const shots = process.env.SINGLETREE_SHOTS;
if (shots) mkdirSync(shots, { recursive: true });
const shoot = async (page, name) => {
  if (!shots) return;
  await page.$eval("#campaign", (element) => element.scrollTo(0, 0));
  await page.screenshot({ path: join(shots, `campaign-${name}.png`) });
};

const PLAN = [
  { id: "report", description: "Write the report.", proof: [{ type: "artifact_approved", kind: "report", key: "spring" }] },
  { id: "send", description: "Send word to Ann.", needs: ["report"], proof: [{ type: "tool_succeeded", tool: "send_message", args: { to: "Ann", body: "It is ready." } }, { type: "user_confirmed", question: "Did it arrive?" }] },
];

/** What the model waits for before it answers; nothing usually. */
let gate = null;

/** Proposes whatever the state lacks, as a model that knows no more than its prompt. */
function propose(request) {
  const text = request.messages.at(-1).content;
  const shown = typeof text === "string" ? text : text.map((block) => block.text).join("");
  const state = JSON.parse(/# State\n(.*)/.exec(shown)[1]);
  const of = (action) => [...(gate ? [{ until: gate }] : []), { tool: "propose", arguments: action }];
  if (state.campaign.plan_version === null) return of({ action: "replace_plan", tasks: PLAN, why: "The goal needs these steps." });
  if (!state.campaign.plan_approved) return of({ action: "no_op" });
  if (!state.task) return of(state.next[0] ? { action: "select_task", task: state.next[0].id } : { action: "no_op" });
  const missing = state.task.proof.find((proof) => !proof.found)?.proof;
  const task = state.task.id;
  if (!missing) return of({ action: "complete_task", task });
  if (missing.type === "tool_succeeded") return of({ action: "execute_tool", task, tool: missing.tool, args: missing.args, why: "The plan asks for it." });
  const isProposed = state.log.some(({ what }) => what.type === "artifact_proposed");
  if (missing.type === "artifact_approved" && !isProposed) return of({ action: "propose_artifact", task, kind: missing.kind, key: missing.key, content: `# Report\n${"A line.\n".repeat(40)}\u202eend` });
  return of({ action: "no_op" });
}

let browser;
let house;
let served;
before(async () => {
  browser = await browse();
  served = await model(propose);
  house = await new House("--config", config(served.url, '["outbox"]')).start();
});
after(async () => {
  await browser?.close();
  await house?.kill();
  served?.stop();
});

const part = (page, name) => page.locator(`[data-part="${name}"]`);
const until = (page, status) => page.locator(`.chip[data-status="${status}"]`).waitFor();
const campaignOf = (page) => decodeURIComponent(new URL(page.url()).hash.slice("#/c/".length));
const records = async (id) => {
  const of = (rest) => house.json(`/v1/campaigns/${id}${rest}`);
  return Promise.all([of(""), of("/plan"), of("/tasks"), of("/artifacts"), of("/log?limit=500"), of("/schedules")]);
};

/** Scrolls until everything that is to be approved was in sight, and clicks. */
async function approve(page, card) {
  const button = card.locator('[data-does="approve"]');
  await button.waitFor();
  for (let at = 0; await button.isDisabled(); at += 150) {
    assert.ok(at < 20_000, "it is never seen whole");
    await page.$eval("#campaign", (element, top) => element.scrollTo(0, top % (element.scrollHeight + 1)), at);
    await page.waitForTimeout(60);
  }
  await button.click();
}

async function begin(page, goal) {
  await page.click("#to-campaigns");
  await page.fill(".campaign-form [name=goal]", goal);
  await page.fill(".campaign-form [name=name]", `Campaign: ${goal}`);
  await page.click(".campaign-form button[type=submit]");
  await part(page, "plan").locator(".approval").waitFor();
  return campaignOf(page);
}

/** Serious findings of axe about what is shown. */
async function faultsOfAccess(page) {
  await page.evaluate(() => Promise.all(document.getAnimations().map((it) => it.finished.catch(() => {}))));
  const { violations } = await page.evaluate(() => axe.run());
  return violations.filter((it) => ["serious", "critical"].includes(it.impact)).map((it) => `${it.id}: ${it.nodes.map((node) => node.html).join(" ")}`);
}

test("a campaign: plan, artifact and action approved, paused, resumed, narration cleared, server killed in mid-cycle", async () => {
  const page = await open(browser, house);
  const id = await begin(page, "Tell Ann.");
  assert.equal(await page.innerText("#title"), "Campaign: Tell Ann.");
  // The plan shows its proofs, exactly, before it can be approved.
  const plan = part(page, "plan").locator(".approval");
  assert.match(await plan.innerText(), /report[\s\S]*report\/spring is approved[\s\S]*send_message succeeds[\s\S]*body\s*It is ready\.[\s\S]*to\s*Ann[\s\S]*Did it arrive\?/);
  assert.ok(await plan.locator('[data-does="approve"]').isDisabled(), "a plan that has just come is only read");
  await shoot(page, "plan-light-desktop");
  await approve(page, plan);
  // The report is proposed, and nobody else can say that it is there.
  const report = part(page, "artifacts").locator(".approval");
  await report.waitFor();
  // Its content is read by a request of its own.
  await report.getByText("end").waitFor();
  assert.match(await report.innerText(), /report\/spring, version 1[\s\S]*\\u\{202e\}end/);
  assert.match(await part(page, "tasks").locator(".column.in_progress").innerText(), /missing · report\/spring is approved/);
  // Paused: nothing happens, whatever is approved.
  await until(page, "paused");
  await page.locator('[data-does="pause"]').click();
  await page.getByText("Paused by local.").waitFor();
  await approve(page, report);
  await part(page, "artifacts").locator("details.artifact").waitFor();
  assert.equal((await house.json(`/v1/campaigns/${id}`)).status, "paused");
  // The server is killed while the model thinks, and started again.
  let go;
  gate = new Promise((resolve) => (go = resolve));
  await page.locator('[data-does="resume"]').click();
  await until(page, "active");
  await page.locator('.log [data-type="cycle_began"]').first().waitFor();
  await house.kill();
  await page.getByText("The connection is lost. Reconnecting…").waitFor();
  await house.start();
  go();
  gate = null;
  // The same page goes on, and asks for the exact action.
  const call = part(page, "pending").locator(".approval");
  await call.waitFor();
  assert.match(await call.innerText(), /Run send_message\?[\s\S]*for the task send[\s\S]*body\s*It is ready\.[\s\S]*to\s*Ann/);
  await page.getByText("The connection is lost. Reconnecting…").waitFor({ state: "hidden" });
  await shoot(page, "action-light-desktop");
  // Narration is cleared, and nothing else changes: neither on the server nor on the page.
  await page.locator(".narration li").first().waitFor();
  const shown = () => page.$$eval('[data-part]:not([data-part="narration"]), .campaign-head', (all) => all.map((it) => it.innerText));
  const before = [await records(id), await shown()];
  await page.getByRole("button", { name: "Clear the narration" }).click();
  await page.getByText("Cleared. The campaign is as it was.").waitFor();
  assert.equal(await page.locator(".narration li").count(), 0);
  assert.deepEqual([await records(id), await shown()], before);
  await approve(page, call);
  // The last proof is a person's.
  const confirm = part(page, "tasks").locator('[data-does="confirm"]');
  await confirm.waitFor();
  await confirm.click();
  await until(page, "completed");
  assert.equal(await part(page, "tasks").locator(".column.done .task").count(), 2);
  const log = (await house.json(`/v1/campaigns/${id}/log?limit=500`)).items;
  assert.equal(log.filter((entry) => entry.type === "action_done").length, 1, "one effect");
  await part(page, "log").locator('[data-type="completed"]').waitFor();
  assert.ok(await page.locator('[data-does="pause"]').isHidden(), "a campaign that is over takes no commands");
  await page.locator(".campaigns a", { hasText: "Campaign: Tell Ann." }).waitFor();
  assert.deepEqual([page.faults, page.foreign], [[], []]);
  await page.context().close();
});

test("two pages decide about one plan: one wins, and the other says that it came too late", async () => {
  const [one, other] = [await open(browser, house), await open(browser, house)];
  const id = await begin(one, "Race.");
  await other.goto(`${house.url}/#/c/${id}`);
  const [first, second] = [one, other].map((page) => part(page, "plan").locator(".approval"));
  await second.waitFor();
  // The other page does not hear of it yet.
  await other.route("**/v1/campaigns/**", (route) => (route.request().method() === "GET" ? route.abort() : route.continue()));
  await approve(one, first);
  await part(one, "plan").locator("details summary", { hasText: "approved by local" }).waitFor();
  await approve(other, second);
  await second.getByText(/It has changed meanwhile/).waitFor();
  await Promise.all([one, other].map((page) => page.context().close()));
});

test("a click counts also when what is pressed changes before it is released", async () => {
  const page = await open(browser, house);
  const id = await begin(page, "Press.");
  const post = (rest, body) => house.json(`/v1/campaigns/${id}${rest}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const entry = (type) => page.locator(`.log [data-type="${type}"]`).first().waitFor();
  const { plan } = await house.json(`/v1/campaigns/${id}`);
  await post("/plan/approve", { version: plan.version, digest: plan.digest });
  await entry("artifact_proposed");
  const [{ kind, key, version, digest }] = (await house.json(`/v1/campaigns/${id}/artifacts`)).items;
  await post("/artifacts/approve", { kind, key, version, digest });
  await part(page, "pending").locator(".approval").waitFor();
  // The card of the task changes while its button is pressed.
  await part(page, "tasks").locator('[data-does="confirm"]').hover();
  await page.mouse.down();
  const { call } = await house.json(`/v1/campaigns/${id}`);
  await post("/commands", { type: "decide", digest: call.digest, approved: true });
  await entry("action_done");
  await page.waitForTimeout(500);
  await page.mouse.up();
  await until(page, "completed");
  await page.context().close();
});

test("a plan is edited, and its approval is void", async () => {
  const page = await open(browser, house);
  const id = await begin(page, "Edit.");
  await approve(page, part(page, "plan").locator(".approval"));
  await part(page, "plan").locator("details summary", { hasText: "approved by local" }).waitFor();
  await page.locator('[data-does="pause"]').click();
  await page.getByText("Paused by local.").waitFor();
  await part(page, "plan").locator(".editor summary").click();
  const field = part(page, "plan").locator("textarea.code");
  await field.fill("nonsense");
  await page.locator('[data-does="save-plan"]').click();
  await page.getByText(/This is not JSON/).waitFor();
  await field.fill(JSON.stringify([{ ...PLAN[0], description: "Write a longer report." }]));
  await page.locator('[data-does="save-plan"]').click();
  await part(page, "plan").getByText("Approve the plan, version 2?").waitFor();
  const plan = await house.json(`/v1/campaigns/${id}/plan`);
  assert.deepEqual([plan.version, plan.approved_by, plan.tasks.length], [2, undefined, 1]);
  await page.context().close();
});

test("the session of a campaign is marked, and opens the campaign", async () => {
  const page = await open(browser, house);
  const id = await begin(page, "Mark.");
  await page.click("#to-conversations");
  const row = page.locator(`.sessions:not(.campaigns) a[href="#/c/${id}"]`);
  await row.waitFor();
  assert.match(await row.innerText(), /\ncampaign · (?!commands)/);
  await page.goto(`${house.url}/#/s/campaign:${id}`);
  await part(page, "plan").locator(".approval").waitFor();
  assert.equal(campaignOf(page), id);
  await page.context().close();
});

test("the page of a campaign speaks six languages", async () => {
  const id = (await house.json("/v1/campaigns", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ goal: "x", tasks: PLAN }) })).id;
  for (const [locale, word] of [["de-DE", "Genehmigen"], ["es-ES", "Aprobar"], ["fr-FR", "Approuver"], ["ja-JP", "承認"], ["zh-CN", "批准"], ["pt-BR", "Approve"]]) {
    const page = await open(browser, house, { locale, at: `/#/c/${id}` });
    await part(page, "plan").getByRole("button", { name: word, exact: true }).waitFor();
    assert.equal(await page.getAttribute(".campaign-view", "lang"), locale === "pt-BR" ? "en" : locale.slice(0, 2));
    await page.context().close();
  }
});

for (const [colorScheme, width, height, name] of [["light", 1280, 820, "desktop"], ["dark", 1280, 820, "desktop"], ["light", 390, 844, "phone"], ["dark", 390, 844, "phone"]]) {
  test(`campaigns are accessible: ${colorScheme}, ${name}`, async () => {
    const page = await open(browser, house, { colorScheme, viewport: { width, height } });
    await page.context().addInitScript({ path: axe() });
    await page.goto(`${house.url}/#/campaigns`);
    await page.reload();
    await page.locator(".campaign-form").waitFor();
    const isWithin = () => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
    await shoot(page, `form-${colorScheme}-${name}`);
    assert.deepEqual([await faultsOfAccess(page), await isWithin()], [[], true]);
    await page.fill(".campaign-form [name=goal]", `Look ${colorScheme} ${name}.`);
    await page.click(".campaign-form button[type=submit]");
    await part(page, "plan").locator(".approval").waitFor();
    await page.locator(".narration li").first().waitFor();
    assert.deepEqual([await faultsOfAccess(page), await isWithin()], [[], true]);
    await approve(page, part(page, "plan").locator(".approval"));
    await part(page, "artifacts").locator(".approval").waitFor();
    await approve(page, part(page, "artifacts").locator(".approval"));
    await part(page, "pending").locator(".approval").waitFor();
    await shoot(page, `work-${colorScheme}-${name}`);
    assert.deepEqual([await faultsOfAccess(page), await isWithin()], [[], true]);
    // By keyboard alone: the decision can be reached and taken.
    await page.locator('[data-part="pending"] [data-does="reject"]:enabled').focus();
    await page.keyboard.press("Enter");
    await page.locator('.log [data-type="action_decided"]').waitFor();
    assert.deepEqual([page.faults, page.foreign], [[], []]);
    await page.context().close();
  });
}
