// One campaign on the page: its head, pending decisions, plan, task board, artifacts, log and narration, as they change.
//
// Everything but the narration is read from the campaign's records. Narration is text beside them: nothing here reads it.

import { CampaignArtifactList } from "./campaign_artifacts.js";
import { note, problemText } from "./campaign_cards.js";
import { CampaignHead, isCampaignOver } from "./campaign_head.js";
import { CampaignLogView } from "./campaign_log.js";
import { CampaignPendingView } from "./campaign_pending.js";
import { CampaignPlanView } from "./campaign_plan.js";
import { CampaignTaskBoard } from "./campaign_tasks.js";
import { words } from "./campaign_words.js";
import { fill, h } from "./dom.js";
import { LANGUAGE } from "./languages.js";
import { NarrationPanel } from "./narration_panel.js";

/** The events of so many milliseconds are shown together. */
const PAUSE_MS = 150;
const TASKS_PAGE = 100;
const EMPTY = { id: null, campaign: null, plan: null, tasks: { items: [], next: undefined }, pages: 1, artifacts: [] };

export class CampaignPage {
  #state = { ...EMPTY };
  #unfollow = () => {};
  #due = 0;
  #isReading = false;
  #isStale = false;
  #isPressed = false;
  #isShowDue = false;
  #line = h("p", { className: "note", role: "status", hidden: true });
  #pending = h("div", { className: "cards" });
  #plan = h("div", { className: "cards" });
  #board = h("div", {});
  #artifacts = h("div", { className: "cards" });
  #narration = h("div", {});

  /** `actions`: `titled(name)`, `fail(error)`, `announce(text)`, `refreshList()`, `deleted(id)`, `refused(response)`. */
  constructor(api, actions) {
    Object.assign(this, { api, actions });
    const changed = () => this.#read();
    this.head = new CampaignHead(api, changed, actions.deleted);
    this.pendingView = new CampaignPendingView(api, changed);
    this.planView = new CampaignPlanView(api, changed);
    this.taskBoard = new CampaignTaskBoard(api, changed, () => this.#readMoreTasks());
    this.artifactList = new CampaignArtifactList(api, changed);
    this.logView = new CampaignLogView(api);
    this.narrationPanel = new NarrationPanel(api, narrationWords());
    const section = (name, content, id = name) => h("section", { className: "part", data: { part: id }, aria: { label: words(name) } }, h("h2", {}, words(name)), content);
    const record = h("div", { className: "record" }, this.head.element, section("pendingHeading", this.#pending, "pending"), section("plan", this.#plan), section("tasks", this.#board), section("artifacts", this.#artifacts), section("log", this.logView.element));
    const narration = h("aside", { className: "part narration-pane", data: { part: "narration" }, aria: { label: words("narration") } }, h("h2", {}, words("narration")), note(words("narrationNote")), this.#narration);
    this.element = h("div", { className: "campaign-view", lang: LANGUAGE }, this.#line, h("div", { className: "campaign-columns" }, record, narration));
    // What is made anew between press and release gets no click.
    this.element.addEventListener("pointerdown", (event) => (this.#isPressed = event.button === 0));
    for (const name of ["pointerup", "pointercancel", "contextmenu", "dragend", "blur"]) addEventListener(name, () => this.#released());
  }

  /** Opens a campaign and follows its events. */
  async open(id) {
    this.close();
    this.#state = { ...EMPTY, id };
    this.element.hidden = true;
    try {
      const campaign = await this.#readRecords(id);
      if (!campaign || this.#state.id !== id) return;
      await this.logView.open(id, campaign.last_event);
      if (this.#state.id !== id) return;
      this.#follow(id, campaign.last_event);
    } catch (error) {
      if (this.#state.id === id) this.actions.fail(error);
    }
  }

  /** Follows no campaign any more. */
  close() {
    this.#unfollow();
    clearTimeout(this.#due);
    [this.#unfollow, this.#due] = [() => {}, 0];
    this.#state = { ...EMPTY };
    this.#line.hidden = true;
  }

  #follow(id, after) {
    this.#unfollow = this.api.followCampaign(id, {
      after: String(after),
      onEvent: ({ data }) => this.#state.id === id && this.#take(JSON.parse(data)),
      onState: (line, response) => this.#state.id === id && this.#lineChanged(line, response),
    });
  }

  #take(entry) {
    if (entry.type === "stream.failed") return;
    this.logView.take(entry);
    this.#due ||= setTimeout(() => ((this.#due = 0), this.#read()), PAUSE_MS);
  }

  #lineChanged(line, response) {
    this.#line.hidden = line === "open" || line === "refused";
    this.#line.textContent = line === "lost" ? words("lost") : "";
    // What happened while the line was lost comes with the events; the records are read in any case.
    if (line === "open") this.#read();
    if (line !== "refused") return;
    if (response.status === 404) {
      this.#line.hidden = false;
      this.#line.textContent = words("gone");
    } else this.actions.refused(response);
  }

  /** Reads the records anew, once at a time however many events ask for it. */
  async #read() {
    this.#isStale = true;
    if (this.#isReading) return;
    this.#isReading = true;
    while (this.#isStale) {
      this.#isStale = false;
      const { id } = this.#state;
      if (id) await this.#readRecords(id).catch((error) => (this.#line.hidden = false, this.#line.textContent = problemText(error)));
    }
    this.#isReading = false;
    this.actions.refreshList();
  }

  async #readRecords(id) {
    const [campaign, artifacts] = await Promise.all([this.api.campaign(id), this.api.campaignArtifacts(id)]);
    const known = this.#state.plan;
    const isSame = known && campaign.plan && known.version === campaign.plan.version && known.approved_by === campaign.plan.approved_by;
    const plan = isSame ? known : campaign.plan ? await this.api.campaignPlan(id) : null;
    const tasks = await this.#readTasks(id);
    if (this.#state.id !== id) return null;
    const waited = Boolean(this.#state.campaign?.waits_for);
    Object.assign(this.#state, { campaign, plan, tasks, artifacts: artifacts.items });
    this.#show();
    if (campaign.waits_for && !waited) this.actions.announce(words("pendingHeading"));
    return campaign;
  }

  async #readTasks(id) {
    let page = { next: 0 };
    const items = [];
    for (let pages = 0; page.next !== undefined && pages < this.#state.pages; pages += 1) {
      page = await this.api.campaignTasks(id, { from: page.next, limit: TASKS_PAGE });
      items.push(...page.items);
    }
    return { items, next: page.next };
  }

  #readMoreTasks() {
    this.#state.pages += 1;
    return this.#read();
  }

  #released() {
    this.#isPressed = false;
    // The click comes first.
    if (this.#isShowDue) setTimeout(() => this.#state.campaign && this.#show());
  }

  #show() {
    this.#isShowDue = this.#isPressed;
    if (this.#isPressed) return;
    const { campaign, plan, tasks, artifacts } = this.#state;
    const mayChange = !isCampaignOver(campaign);
    this.actions.titled(campaign.name);
    this.element.hidden = false;
    this.element.dataset.status = campaign.status;
    this.element.dataset.seq = campaign.last_event;
    this.head.show(campaign);
    const pending = this.pendingView.parts(campaign);
    const waitsForPlan = plan && !plan.approved_by && mayChange;
    fill(this.#pending, pending.length > 0 ? pending : note(waitsForPlan ? words("approvePlanQuestion", { version: plan.version }) : words("nothingWaits")));
    fill(this.#plan, this.planView.parts(campaign.id, plan, mayChange));
    fill(this.#board, this.taskBoard.parts(campaign.id, { ...tasks, tally: campaign.tasks, mayChange, isApproved: Boolean(campaign.plan?.approved_by) }));
    fill(this.#artifacts, this.artifactList.parts(campaign.id, artifacts, mayChange));
    this.#showNarration(campaign.session);
  }

  /** Narration is read apart: when it cannot be read, nothing else changes. */
  async #showNarration(session) {
    const parts = await this.narrationPanel.parts(session).catch((error) => [note(error.message)]);
    if (this.#state.campaign?.session === session) fill(this.#narration, parts);
  }
}

const narrationWords = () => ({ clear: words("clear"), cleared: words("cleared"), empty: words("nothingNarrated"), off: words("narrationOff"), label: words("narration") });
