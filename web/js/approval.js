// The card of an approval: exactly what would be done, by whom it was asked, until when.

import { Unreachable } from "./api.js";
import { h, icon } from "./dom.js";
import { straight } from "./markdown.js";
import { code, pretty } from "./turn_view.js";

const RISK = { read: "reads only", safe_write: "can be undone", destructive: "cannot be undone", local: "acts on this machine" };

/** So long a card is only read: a second click that was meant for the card before it decides nothing. */
const READ_MS = 1000;

/** Makes the card of what is waited for, which is `place` (`{nth, of}`) of several. `answer(wait, payload)` gives the person's word. */
export function approvalCard(wait, place, answer) {
  const about = wait.metadata ?? {};
  const isApproval = Boolean(wait.action);
  const effect = about.effect ?? "unknown";
  const title = isApproval ? `Run ${about.tool ?? wait.signal}?` : `Waits for: ${wait.signal}`;
  const field = isApproval ? null : h("textarea", { rows: 3, value: "{}", aria: { label: "answer as JSON" } });
  const told = h("p", { className: "note", role: "status" });
  const card = h(
    "section",
    { className: `approval risk-${isApproval ? effect : "none"}`, aria: { label: straight(title) } },
    h("h2", {}, icon("shield"), straight(title), place.of > 1 && h("span", { className: "note" }, `${place.nth} of ${place.of}`)),
    isApproval && h("p", { className: "risk" }, RISK[effect] ?? "unknown effect"),
    about.arguments !== undefined && code(pretty(about.arguments)),
    !isApproval && wait.metadata && code(pretty(wait.metadata)),
    field,
    wait.deadline && h("p", { className: "note" }, "until ", h("time", { dateTime: wait.deadline }, new Date(wait.deadline).toLocaleString())),
    h("div", { className: "row" }, isApproval ? [give("Approve", "primary", { approved: true }), give("Reject", "", { approved: false })] : [send()]),
    told,
  );
  let enabled;
  enable(false);
  setTimeout(() => enable(true), READ_MS);
  return card;

  function enable(yes) {
    enabled = yes;
    for (const it of card.querySelectorAll("button")) it.disabled = !yes;
  }

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
    if (payload === null || !enabled) return;
    enable(false);
    try {
      await answer(wait, payload);
      told.textContent = "Answered.";
    } catch (error) {
      told.textContent = error instanceof Unreachable ? `${error.message} Your answer was not given: press again.` : error.message;
      enable(true);
    }
  }
}
