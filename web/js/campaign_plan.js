// The plan of a campaign: its tasks with the proofs that an approval is about, its approval, and its editor.

import { jsonView, valueView } from "./action_view.js";
import { decisionButtons, KeptCards, actionButton, note, shownText, statusLine } from "./campaign_cards.js";
import { words } from "./campaign_words.js";
import { h, icon } from "./dom.js";
import { visibleValue } from "./visible_text.js";

export class CampaignPlanView {
  #cards = new KeptCards();

  constructor(api, onChange) {
    this.api = api;
    this.onChange = onChange;
  }

  /** Returns the parts that show the plan of a campaign; `mayChange` is false when the campaign is over. */
  parts(campaign, plan, mayChange) {
    if (!plan) return [note(words("noPlan")), ...(mayChange ? this.#cards.show([{ version: 0, tasks: [] }], () => `${campaign} 0`, (empty) => this.#editor(campaign, empty)) : [])];
    const key = () => `${campaign} ${plan.version} ${plan.approved_by ?? ""} ${mayChange}`;
    return this.#cards.show([plan], key, () => this.#card(campaign, plan, mayChange));
  }

  #card(campaign, plan, mayChange) {
    const status = statusLine();
    const isOpen = !plan.approved_by && mayChange;
    const title = words(isOpen ? "approvePlanQuestion" : "planVersion", { version: plan.version });
    const tasks = h("ol", { className: "plan-tasks" }, plan.tasks.map(taskDefinition));
    const shown = h("div", {}, h("h3", {}, icon("shield"), title), note(plan.approved_by ? words("approvedBy", { by: shownText(plan.approved_by) }) : words("notApproved")), tasks, note(words("digest", { digest: plan.digest }), { className: "note digest" }));
    const act = (send) => async (...given) => {
      await send(...given);
      this.onChange();
    };
    const approve = act(() => this.api.approvePlan(campaign, { version: plan.version, digest: plan.digest }));
    const reject = act((reason) => this.api.rejectPlan(campaign, { version: plan.version, reason }));
    const edit = mayChange && this.#editor(campaign, plan);
    // A plan that is approved is a record: only one that waits for a decision has its tasks unfolded.
    if (!isOpen) return h("section", { className: "plan", aria: { label: title } }, h("details", {}, h("summary", {}, title, " · ", plan.approved_by ? words("approvedBy", { by: shownText(plan.approved_by) }) : words("notApproved")), tasks, note(words("digest", { digest: plan.digest }), { className: "note digest" })), edit);
    return h("section", { className: "approval plan", tabIndex: -1, aria: { label: title } }, shown, decisionButtons(shown, { approve, reject, status }), edit);
  }

  /** A form in which the tasks are edited as JSON. */
  #editor(campaign, plan) {
    const status = statusLine();
    const field = h("textarea", { className: "code", rows: 12, spellcheck: false, aria: { label: words("editPlan") } });
    field.value = JSON.stringify(plan.tasks.length > 0 ? plan.tasks : [{ id: "first", description: "", proof: [{ type: "user_confirmed", question: "" }] }], null, 2);
    const save = async () => {
      let tasks;
      try {
        tasks = JSON.parse(field.value);
      } catch (error) {
        status.textContent = words("notJson", { why: error.message });
        return;
      }
      await this.api.editPlan(campaign, { version: plan.version, tasks });
      this.onChange();
    };
    return h("details", { className: "editor" }, h("summary", {}, words("editPlan")), note(words("editNote")), field, h("div", { className: "row" }, actionButton(words("save"), save, { status, name: "save-plan" })), status);
  }
}

/** A task as the plan defines it: everything that its approval is about. */
function taskDefinition(task) {
  return h(
    "li",
    {},
    h("p", { className: "task-name", dir: "auto" }, h("code", { dir: "ltr" }, visibleValue(task.id)), " ", h("span", { className: "as-it-is" }, visibleValue(task.description))),
    task.needs?.length > 0 && note(words("needs", { tasks: task.needs.map(shownText).join(", ") })),
    note(words("proofs")),
    h("ul", { className: "proofs" }, task.proof.map((proof) => h("li", {}, proofParts(proof)))),
  );
}

/** A proof in words, with the values that it is exact about. */
export function proofParts(proof) {
  const of = (name) => visibleValue(String(proof[name] ?? ""));
  const given = Object.keys(proof.args ?? {}).length > 0 && [h("span", { className: "note" }, " ", words("withArguments")), valueView(proof.args)];
  switch (proof.type) {
    case "tool_succeeded":
      return [words("proofTool", { tool: of("tool") }), given].flat();
    case "artifact_approved":
      return [words("proofArtifact", { name: `${of("kind")}/${of("key")}` })];
    case "mcp_read":
      return [words("proofRead", { tool: of("tool"), server: of("server") }), given, h("span", { className: "note" }, " ", words("expected")), jsonView(proof.expect)].flat();
    case "user_confirmed":
      return [words("proofConfirmed", { question: of("question") })];
    default:
      return [jsonView(proof)];
  }
}

