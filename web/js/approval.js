// The card of an approval: the action, its origin, the agent's reason, and the deadline.
//
// It depends on nothing that reads Markdown: whatever a conversation contains, the card is drawn.

import { jsonView, oneLine, valueView } from "./action_view.js";
import { Unreachable } from "./api.js";
import { h, icon } from "./dom.js";
import { whenSeen } from "./seen.js";
import { relativeTime, shortTime, tick } from "./ticking.js";
import { visibleText, visibleValue } from "./visible_text.js";

const RISK = { read: "It only reads.", safe_write: "It can be undone.", destructive: "It cannot be undone.", local: "It acts on this machine." };

/** The buttons of a new card are disabled this long: a second click meant for the previous card decides nothing. */
const READ_MS = 1000;
/** A description or reason that is longer is folded. */
const TEXT_MAX = 400;

const UNSEEN = "Approve is locked until all of this has been in sight: scroll through it.";
const EXPIRED = "The time to answer is over. Nothing is done.";

/** Metadata that has its own place on the card; all other metadata is shown as it is. */
const KNOWN = ["kind", "tool", "effect", "notice", "call_id", "arguments", "description", "server", "place"];

/**
 * Makes the card of a wait. `reason` is the agent's text beside the call; `answer(wait, payload)` sends the
 * answer.
 */
export function approvalCard(wait, reason, answer) {
  const about = Object(wait.metadata);
  const isApproval = Boolean(wait.action);
  const effect = about.effect ?? "unknown";
  const { nth, of } = Object(about.place);
  const title = oneLine(isApproval ? `Run ${about.tool ?? wait.signal}?` : `Your answer is needed: ${wait.signal}`);
  const status = h("p", { className: "note", role: "status" });
  const field = isApproval ? reasonField(wait) : h("textarea", { rows: 3, value: "{}", aria: { label: "answer as JSON" } });
  const asked = h(
    "div",
    {},
    h("h2", {}, icon("shield"), title, of > 1 && h("span", { className: "note" }, `${nth} of ${of}`)),
    about.server && h("p", { className: "note server" }, `A tool of the MCP server “${oneLine(String(about.server))}”.`),
    isApproval && h("p", { className: "risk" }, RISK[effect] ?? "It is not known what it changes."),
    about.notice && h("p", { className: "risk", role: "alert" }, visibleValue(String(about.notice))),
    actionParts(wait.metadata, isApproval),
  );
  const card = h(
    "section",
    { className: `approval risk-${isApproval ? effect : "none"}`, tabIndex: -1, aria: { label: title } },
    asked,
    explanation("why", "The agent's reason", reason),
    explanation("description", "What the tool says about itself", about.description),
    isApproval && about.tool !== undefined && h("details", {}, h("summary", {}, "The same as JSON"), jsonView(about.arguments ?? {})),
    field && (isApproval ? h("label", { className: "reason" }, "Reason for a rejection (optional; the agent is told)", field) : field),
    wait.deadline && expiry(wait.deadline, () => expire()),
    h("div", { className: "row" }, isApproval ? [approveButton(), rejectButton()] : [answerButton()]),
    status,
  );
  let [isEnabled, isSeen, isExpired] = [false, !isApproval, false];
  enable(false);
  setTimeout(() => enable(true), READ_MS);
  if (isApproval) {
    status.textContent = UNSEEN;
    whenSeen(asked, () => {
      isSeen = true;
      if (status.textContent === UNSEEN) status.textContent = "";
      enable(isEnabled);
    });
  }
  return card;

  function enable(yes) {
    isEnabled = yes && !isExpired;
    for (const button of card.querySelectorAll("button")) button.disabled = !isEnabled || (button.dataset.gives === "approval" && !isSeen);
  }

  function expire() {
    if (isExpired) return;
    isExpired = true;
    enable(false);
    status.textContent = EXPIRED;
  }

  function approveButton() {
    return h("button", { type: "button", className: "primary", data: { gives: "approval" }, onclick: () => send({ approved: true }) }, "Approve");
  }

  function rejectButton() {
    return h("button", { type: "button", onclick: () => send({ approved: false, ...(field?.value.trim() ? { reason: field.value.trim() } : {}) }) }, "Reject");
  }

  function answerButton() {
    return h("button", { type: "button", className: "primary", onclick: () => send(parsedAnswer()) }, "Answer");
  }

  function parsedAnswer() {
    try {
      return JSON.parse(field.value);
    } catch (error) {
      status.textContent = `This is not JSON: ${error.message}`;
      return null;
    }
  }

  async function send(payload) {
    if (payload === null || !isEnabled || (payload.approved && !isSeen)) return;
    // A button that is disabled loses the focus.
    card.focus({ preventScroll: true });
    enable(false);
    try {
      await answer(wait, payload);
      status.textContent = "Answered.";
    } catch (error) {
      status.textContent = error instanceof Unreachable ? `${error.message} Your answer was not sent: press the button again.` : error.message;
      enable(true);
    }
  }
}

/** A field for the reason of a rejection, where an answer may have one. */
function reasonField(wait) {
  const schema = wait.payload_schema?.properties?.reason;
  return schema ? h("textarea", { rows: 1, maxLength: schema.maxLength ?? 1000 }) : null;
}

/** Everything that is approved, unfolded: nothing of it scrolls by itself, so that what the page has shown was in sight. */
function actionParts(metadata, isApproval) {
  if (metadata === undefined || metadata === null) return [];
  const { tool, arguments: given, ...others } = Object(metadata);
  if (!isApproval || tool === undefined) return [jsonView(metadata)];
  const more = Object.fromEntries(Object.entries(others).filter(([name]) => !KNOWN.includes(name)));
  const parts = [labelled("arguments", valueView(given ?? {}))];
  if (Object.keys(more).length > 0) parts.push(h("h3", {}, "More about it"), labelled("more about it", valueView(more)));
  return parts;
}

const labelled = (label, element) => h("div", { className: "action", role: "group", aria: { label } }, element);

/** A text that explains an action and is no part of it. */
function explanation(className, label, text) {
  if (!text) return null;
  const words = visibleText(String(text));
  const part = h("div", { className: "as-it-is", dir: "auto" }, words);
  if (words.length > TEXT_MAX) return h("details", { className }, h("summary", {}, label), part);
  return h("div", { className }, h("p", { className: "note" }, label), part);
}

function expiry(deadline, onExpired) {
  const element = h("time", { dateTime: deadline });
  element.addEventListener("expired", onExpired);
  // The card must be complete before it can expire.
  queueMicrotask(() => tick(element, expiryWords(Date.parse(deadline))));
  return h("p", { className: "note expiry" }, element);
}

/** Returns the words for a deadline. They report the end by an event: a callback would keep the card in memory. */
const expiryWords = (at) => (element) => {
  const left = (at - Date.now()) / 1000;
  if (left <= 0) element.dispatchEvent(new Event("expired"));
  return left <= 0 ? "Expired." : `Expires ${relativeTime(left)} (${shortTime(at)}).`;
};
