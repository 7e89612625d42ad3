// The card of an approval: exactly what would be done, by whom it was asked, until when.

import { h, icon } from "./dom.js";
import { straight } from "./markdown.js";
import { code, pretty } from "./turn_view.js";

const RISK = { read: "reads only", safe_write: "can be undone", destructive: "cannot be undone", local: "acts on this machine" };

/** Makes the card of what a turn waits for. `answer(payload)` gives the person's word. */
export function approvalCard(turn, answer) {
  const { wait } = turn;
  const about = wait.metadata ?? {};
  const isApproval = Boolean(wait.action);
  const effect = about.effect ?? "unknown";
  const title = isApproval ? `Run ${about.tool ?? wait.signal}?` : `Waits for: ${wait.signal}`;
  const field = isApproval ? null : h("textarea", { rows: 3, value: "{}", aria: { label: "answer as JSON" } });
  const told = h("p", { className: "note", role: "status" });
  const card = h(
    "section",
    { className: `approval risk-${isApproval ? effect : "none"}`, aria: { label: straight(title) } },
    h("h2", {}, icon("shield"), straight(title)),
    isApproval && h("p", { className: "risk" }, RISK[effect] ?? "unknown effect"),
    about.arguments !== undefined && code(pretty(about.arguments)),
    !isApproval && wait.metadata && code(pretty(wait.metadata)),
    field,
    wait.deadline && h("p", { className: "note" }, "until ", h("time", { dateTime: wait.deadline }, new Date(wait.deadline).toLocaleString())),
    h("div", { className: "row" }, isApproval ? [give("Approve", "primary", { approved: true }), give("Reject", "", { approved: false })] : [send()]),
    told,
  );
  return card;

  function give(words, className, payload) {
    return h("button", { type: "button", className, onclick: () => say(payload) }, words);
  }

  function send() {
    return h("button", { type: "button", className: "primary", onclick: () => say(read()) }, "Answer");
  }

  function read() {
    try {
      return JSON.parse(field.value);
    } catch (error) {
      told.textContent = `This is not JSON: ${error.message}`;
      return null;
    }
  }

  async function say(payload) {
    if (payload === null) return;
    for (const it of card.querySelectorAll("button")) it.disabled = true;
    try {
      await answer(wait, payload);
      told.textContent = "Answered.";
    } catch (error) {
      told.textContent = error.message;
      for (const it of card.querySelectorAll("button")) it.disabled = false;
    }
  }
}
