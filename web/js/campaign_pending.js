// The decisions that a campaign waits for, besides that about its plan: a call with its exact arguments, and a question.

import { jsonView, oneLine, valueView } from "./action_view.js";
import { KeptCards, actionButton, decisionButtons, note, shownText, statusLine } from "./campaign_cards.js";
import { words } from "./campaign_words.js";
import { h, icon } from "./dom.js";
import { visibleValue } from "./visible_text.js";

export class CampaignPendingView {
  #cards = new KeptCards();

  constructor(api, onChange) {
    this.api = api;
    this.onChange = onChange;
  }

  /** Returns the cards of what waits for a person. */
  parts(campaign) {
    const waits = pendingOf(campaign);
    const key = (wait) => `${campaign.id} ${JSON.stringify(wait)}`;
    return this.#cards.show(waits, key, (wait) => (wait.type === "action" ? this.#call(campaign.id, wait.call) : this.#question(campaign.id, wait)));
  }

  #send(campaign, command) {
    return this.api.command(campaign, command).then(() => this.onChange());
  }

  #call(campaign, call) {
    const status = statusLine();
    const title = words("actionQuestion", { tool: oneLine(call.tool) });
    const exact = h(
      "div",
      {},
      h("h3", {}, icon("shield"), title),
      note(words("forTask", { task: shownText(call.task), version: call.plan_version, cycle: call.cycle })),
      h("div", { className: "action", role: "group", aria: { label: words("arguments") } }, valueView(call.args)),
      note(words("digest", { digest: call.digest }), { className: "note digest" }),
    );
    const decide = (approved, reason) => this.#send(campaign, { type: "decide", digest: call.digest, approved, reason });
    return h("section", { className: "approval", tabIndex: -1, aria: { label: title } }, exact, h("details", {}, h("summary", {}, "JSON"), jsonView(call.args)), decisionButtons(exact, { approve: () => decide(true), reject: (reason) => decide(false, reason), status }));
  }

  #question(campaign, { question, schema, task }) {
    const status = statusLine();
    const isText = !schema || schema.type === "string";
    const field = h("textarea", { rows: 3, aria: { label: words(isText ? "answer" : "answerAsJson") } });
    if (!isText) field.value = "{}";
    const send = async () => {
      let answer = field.value;
      if (!isText) {
        try {
          answer = JSON.parse(field.value);
        } catch (error) {
          status.textContent = words("notJson", { why: error.message });
          return;
        }
      }
      await this.#send(campaign, { type: "answer", question, answer });
    };
    return h(
      "section",
      { className: "approval risk-none", tabIndex: -1, aria: { label: words("question") } },
      h("h3", {}, words("question"), task && h("span", { className: "note" }, shownText(task))),
      h("p", { className: "as-it-is", dir: "auto" }, visibleValue(question)),
      schema && jsonView(schema),
      h("label", { className: "reason" }, words(isText ? "answer" : "answerAsJson"), field),
      h("div", { className: "row" }, actionButton(words("send"), send, { className: "primary", status, name: "answer" })),
      status,
    );
  }
}

/** What of a campaign waits for a person, without its plan, which is decided where it is shown. */
export function pendingOf(campaign) {
  const { waits_for: wait, call } = campaign;
  if (wait?.type === "action" && call) return [{ type: "action", call }];
  return wait?.type === "question" ? [wait] : [];
}
