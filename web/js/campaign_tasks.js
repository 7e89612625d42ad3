// The task board of a campaign: four columns, each task with its proofs and whether they were found.

import { KeptCards, actionButton, note, shownText, statusLine } from "./campaign_cards.js";
import { proofParts } from "./campaign_plan.js";
import { words } from "./campaign_words.js";
import { h } from "./dom.js";
import { visibleValue } from "./visible_text.js";

const COLUMNS = ["pending", "in_progress", "blocked", "done"];

export class CampaignTaskBoard {
  #cards = new KeptCards();
  #more = actionButton(words("moreTasks"), () => this.onMore(), { className: "wordy" });

  /** `onMore` reads the next page of tasks. */
  constructor(api, onChange, onMore) {
    Object.assign(this, { api, onChange, onMore });
  }

  /** Returns the board. `tally` counts all tasks, also those that were not read yet. */
  parts(campaign, { items, next, tally, mayChange, isApproved }) {
    if (items.length === 0) return [note(words("noTasks"))];
    const key = (task) => JSON.stringify([campaign, mayChange, isApproved, task]);
    const cards = this.#cards.show(items, key, (task) => this.#card(campaign, task, mayChange, isApproved));
    const column = (status) => {
      const own = cards.filter((_, at) => items[at].status === status);
      return h("section", { className: `column ${status}`, aria: { label: words(status) } }, h("h3", {}, words(status), h("span", { className: "count" }, String(tally[status] ?? own.length))), h("ul", {}, own));
    };
    return [h("div", { className: "board" }, COLUMNS.map(column)), next !== undefined && this.#more];
  }

  #card(campaign, task, mayChange, isApproved) {
    const status = statusLine();
    const command = (body) => async () => {
      await this.api.command(campaign, body);
      this.onChange();
    };
    const button = (name, body) => actionButton(words(name), command(body), { status, name });
    const proof = ({ rule, found }) => {
      const canConfirm = mayChange && isApproved && rule.type === "user_confirmed" && !found && task.status !== "done";
      return h("li", { className: found ? "found" : "missing" }, h("strong", {}, words(found ? "found" : "missing")), " · ", proofParts(rule), canConfirm && h("div", { className: "row" }, button("confirm", { type: "confirm", task: task.id, question: rule.question })));
    };
    const buttons = [
      mayChange && task.status === "blocked" && button("unblock", { type: "unblock", task: task.id }),
      mayChange && (task.status === "blocked" || task.status === "done") && button("retry", { type: "retry", task: task.id }),
    ].filter(Boolean);
    return h(
      "li",
      { className: "task", data: { task: task.id } },
      h("p", { className: "task-name", dir: "auto" }, h("code", { dir: "ltr" }, visibleValue(task.id)), " ", visibleValue(task.description)),
      task.needs.length > 0 && note(words("needs", { tasks: task.needs.map(shownText).join(", ") })),
      task.blocked_because && h("p", { className: "failure", dir: "auto" }, visibleValue(task.blocked_because)),
      h("ul", { className: "proofs" }, task.proof.map(proof)),
      task.attempts > 1 && note(words("attempts", { count: task.attempts })),
      buttons.length > 0 && h("div", { className: "row" }, buttons),
      status,
    );
  }
}
