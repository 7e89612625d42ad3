// The card of an approval: exactly what would be done, by whom it was asked, until when.
//
// It depends on nothing that reads Markdown: whatever a conversation contains, the card is drawn.

import { Unreachable } from "./api.js";
import { h, icon } from "./dom.js";
import { whenSeen } from "./seen.js";
import { visibleValue } from "./visible_text.js";

const RISK = { read: "reads only", safe_write: "can be undone", destructive: "cannot be undone", local: "acts on this machine" };

/** So long a card is only read: a second click that was meant for the card before it decides nothing. */
const READ_MS = 1000;

/** What is said while a part of the action has not been in sight yet. */
const UNSEEN = "Approve is locked until all of this has been in sight: scroll through it.";

/** Makes the card of what is waited for, which is `place` (`{nth, of}`) of several. `answer(wait, payload)` gives the person's word. */
export function approvalCard(wait, place, answer) {
  const about = wait.metadata ?? {};
  const isApproval = Boolean(wait.action);
  const effect = about.effect ?? "unknown";
  const title = visibleValue(isApproval ? `Run ${about.tool ?? wait.signal}?` : `Waits for: ${wait.signal}`).replaceAll("\n", "\\n");
  const field = isApproval ? null : h("textarea", { rows: 3, value: "{}", aria: { label: "answer as JSON" } });
  const told = h("p", { className: "note", role: "status" });
  const asked = h(
    "div",
    {},
    h("h2", {}, icon("shield"), title, place.of > 1 && h("span", { className: "note" }, `${place.nth} of ${place.of}`)),
    isApproval && h("p", { className: "risk" }, RISK[effect] ?? "unknown effect"),
    about.notice && h("p", { className: "risk", role: "alert" }, visibleValue(about.notice)),
    shownParts(wait.metadata, isApproval),
  );
  const card = h(
    "section",
    { className: `approval risk-${isApproval ? effect : "none"}`, aria: { label: title } },
    asked,
    field,
    wait.deadline && h("p", { className: "note" }, "until ", h("time", { dateTime: wait.deadline }, new Date(wait.deadline).toLocaleString())),
    h("div", { className: "row" }, isApproval ? [give("Approve", "primary", { approved: true }), give("Reject", "", { approved: false })] : [send()]),
    told,
  );
  let [enabled, seen] = [false, !isApproval];
  enable(false);
  setTimeout(() => enable(true), READ_MS);
  if (isApproval) {
    told.textContent = UNSEEN;
    whenSeen(asked, () => {
      seen = true;
      if (told.textContent === UNSEEN) told.textContent = "";
      enable(enabled);
    });
  }
  return card;

  function enable(yes) {
    enabled = yes;
    for (const it of card.querySelectorAll("button")) it.disabled = !yes || (it.dataset.gives === "approval" && !seen);
  }

  function give(words, className, payload) {
    const data = payload.approved ? { gives: "approval" } : {};
    return h("button", { type: "button", className, data, onclick: () => say(payload) }, words);
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
    if (payload === null || !enabled || (payload.approved && !seen)) return;
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

/** Everything that is approved, unfolded: nothing of it scrolls by itself, so that what the page has shown was in sight. */
function shownParts(metadata, isApproval) {
  if (metadata === undefined || metadata === null) return [];
  const { kind, tool, effect, notice, call_id: call, arguments: given, ...others } = Object(metadata);
  if (!isApproval || tool === undefined) return [exactly(metadata, "what is asked")];
  const parts = [exactly(given ?? {}, "arguments")];
  if (Object.keys(others).length > 0) parts.push(exactly(others, "more about it"));
  return parts;
}

/** A value as JSON: what cannot be seen in its texts is escaped, and a text in it cannot look like its surroundings. */
function exactly(value, label) {
  return h("pre", { className: "exactly", aria: { label } }, h("code", { dir: "ltr" }, visibleValue(JSON.stringify(value, null, 2))));
}
