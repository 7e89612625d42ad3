// The head of a campaign: its goal and state, its budget, the buttons that pause, resume and end it, and commands.

import { actionButton, note, shownText, statusLine } from "./campaign_cards.js";
import { words } from "./campaign_words.js";
import { fill, h } from "./dom.js";
import { relativeTime } from "./ticking.js";
import { visibleValue } from "./visible_text.js";

const MINUTE_MS = 60_000;

export class CampaignHead {
  #status = statusLine();
  #state = h("div", { className: "state-line", role: "status" });
  #goal = h("p", { className: "goal as-it-is", dir: "auto" });
  #reason = h("p", { className: "note reason-line" });
  #usage = h("dl", { className: "usage" });
  #campaign = null;

  /** `onDeleted` is called when the campaign was deleted here. */
  constructor(api, onChange, onDeleted) {
    Object.assign(this, { api, onChange });
    const act = (send) => async () => {
      await send(this.#campaign.id);
      this.onChange();
    };
    const button = (name, send, className) => actionButton(words(name), send, { className, status: this.#status, name });
    const ask = (question, send) => async () => confirm(words(question)) && (await send());
    this.buttons = {
      pause: button("pause", act((id) => api.pauseCampaign(id))),
      resume: button("resume", act((id) => api.resumeCampaign(id)), "primary"),
      cancel: button("cancel", ask("confirmCancel", act((id) => api.cancelCampaign(id))), "danger"),
      delete: button("delete", ask("confirmDelete", async () => onDeleted(await api.deleteCampaign(this.#campaign.id).then(() => this.#campaign.id))), "danger"),
    };
    this.command = this.#commandForm();
    this.budget = this.#budgetForm();
    this.element = h("section", { className: "campaign-head" }, this.#state, this.#goal, this.#reason, this.#usage, h("div", { className: "row" }, Object.values(this.buttons)), this.#status, this.command, this.budget);
  }

  /** Shows a campaign. Typed text stays while it is the same one. */
  show(campaign) {
    if (campaign.id !== this.#campaign?.id) {
      this.command.reset();
      this.budget.open = false;
      this.#status.textContent = "";
    }
    this.#campaign = campaign;
    const isOver = isCampaignOver(campaign);
    const state = h("span", { className: `chip state-${campaign.status}`, data: { status: campaign.status } }, words(campaign.status));
    fill(this.#state, state, h("span", { className: "note" }, `${words("agent")}: ${shownText(campaign.agent)}`));
    this.#goal.textContent = visibleValue(campaign.goal);
    this.#reason.textContent = reasonWords(campaign);
    this.#reason.hidden = this.#reason.textContent === "";
    fill(this.#usage, usageRows(campaign));
    this.buttons.pause.hidden = isOver || campaign.status === "error" || campaign.pause?.type === "person";
    this.buttons.resume.hidden = campaign.status !== "paused" && campaign.status !== "error";
    this.buttons.cancel.hidden = isOver;
    this.command.hidden = this.budget.hidden = isOver;
  }

  #commandForm() {
    const status = statusLine();
    const field = h("textarea", { rows: 2, required: true, name: "command", maxLength: 16000 });
    const form = h("form", { className: "propose" }, h("label", {}, words("command"), field), note(words("commandNote")), h("div", { className: "row" }, h("button", { type: "submit" }, words("give"))), status);
    // The same text sent again after a lost answer is one command.
    let key = null;
    field.oninput = () => (key = null);
    form.onsubmit = async (event) => {
      event.preventDefault();
      key ??= crypto.randomUUID();
      try {
        await this.api.command(this.#campaign.id, { type: "free", text: field.value }, key);
        form.reset();
        key = null;
        status.textContent = words("commandGiven");
        this.onChange();
      } catch (error) {
        status.textContent = error.message;
      }
    };
    return form;
  }

  #budgetForm() {
    const status = statusLine();
    const fields = budgetFields();
    const save = async () => {
      await this.api.command(this.#campaign.id, { type: "budget", budget: budgetOf(fields) });
      details.open = false;
      this.onChange();
    };
    const details = h("details", { className: "editor budget", ontoggle: () => details.open && fillBudget(fields, this.#campaign.budget) }, h("summary", {}, words("changeBudget")), h("div", { className: "propose" }, Object.values(fields).map(({ label }) => label), h("div", { className: "row" }, actionButton(words("changeBudget"), save, { status, name: "budget" }))), status);
    return details;
  }
}

/** Whether nothing happens in a campaign any more. */
export const isCampaignOver = ({ status }) => status === "completed" || status === "cancelled";

/** Fields for a budget: an empty one is no limit. */
export function budgetFields() {
  const field = (name) => {
    const input = h("input", { type: "number", min: "0", step: "1", name, placeholder: words("noLimit") });
    return { input, label: h("label", {}, words(name), input) };
  };
  return { cycles: field("cycles"), tokens: field("tokens"), minutes: field("minutes") };
}

/** The budget in the fields. */
export function budgetOf({ cycles, tokens, minutes }) {
  const of = ({ input }, unit) => (input.value === "" ? undefined : Math.round(Number(input.value) * unit));
  return { cycles: of(cycles, 1), tokens: of(tokens, 1), time_ms: of(minutes, MINUTE_MS) };
}

function fillBudget({ cycles, tokens, minutes }, budget) {
  cycles.input.value = budget.cycles ?? "";
  tokens.input.value = budget.tokens ?? "";
  minutes.input.value = budget.time_ms === undefined ? "" : budget.time_ms / MINUTE_MS;
}

function usageRows({ usage, budget }) {
  const minutes = (ms) => (ms === undefined ? undefined : Math.round(ms / MINUTE_MS));
  const row = (name, used, limit) => [h("dt", {}, words(name)), h("dd", {}, limit === undefined ? `${used} (${words("noLimit")})` : words("usedOf", { used, limit }))];
  return [row("cycles", usage.cycles, budget.cycles), row("tokens", usage.tokens, budget.tokens), row("minutes", minutes(usage.time_ms), minutes(budget.time_ms))].flat();
}

/** Why a campaign is paused or has failed, in words. */
export function reasonWords({ pause, failure }) {
  if (failure) return words("failedBy", { category: failure });
  switch (pause?.type) {
    case "person":
      return words("pausedByPerson", { by: shownText(pause.by) });
    case "budget":
      return words("pausedByBudget", { part: { cycles: words("cycles"), tokens: words("tokens"), time: words("minutes") }[pause.part] ?? pause.part });
    case "no_ready_task":
      return words("pausedNoTask");
    case "nothing_to_propose":
      return words("pausedIdle");
    case "transient":
      return words("pausedTransient", { category: pause.category, when: relativeTime((Date.parse(pause.until) - Date.now()) / 1000) });
    case "quota":
      return words("pausedQuota", { category: pause.category });
    default:
      return "";
  }
}
