// A tool call: its name and state on one line, its arguments and result behind it, and who decided about it.

import { h, icon } from "./dom.js";
import { shortTime } from "./ticking.js";
import { visibleText } from "./visible_text.js";

const WORDS = {
  running: "running", waits: "waits for your answer", queued: "not started yet", decided: "answered", done: "done", failed: "failed", closed: "not run",
};

/** The parts that show a call. `state` is of `Conversation.callState`, `isOpen` whether its details are unfolded. */
export function callParts(call, { state, content, decision }, isOpen) {
  const details = h(
    "details",
    { className: `call ${state}`, data: { call: call.id }, open: isOpen },
    h(
      "summary",
      {},
      icon(state === "failed" ? "cross" : "tool"),
      h("span", { className: "name" }, visibleText(call.name)),
      h("span", { className: "state" }, WORDS[state]),
    ),
    h("dl", {}, h("dt", {}, "Arguments"), h("dd", {}, code(pretty(call.arguments))), content !== undefined && [h("dt", {}, "Result"), h("dd", {}, code(content))]),
  );
  return decision ? [details, h("p", { className: "note decision" }, decisionText(decision))] : [details];
}

/** The reason that the server writes where a person gave none. */
const NO_REASON = "a person said no; nothing was done";

/** The name of every caller on a server without authentication. */
const NOBODY = "local";

function decisionText({ how, approved, by, at, reason }) {
  const verb = { expired: "Expired without an answer", cancelled: "Withdrawn without an answer" }[how] ?? (approved === undefined ? "Answered" : approved ? "Approved" : "Rejected");
  const person = by && by !== NOBODY ? ` by ${visibleText(by)}` : "";
  const because = reason && reason !== NO_REASON && how === "consumed" ? `: ${visibleText(reason)}` : "";
  return `${verb}${how === "consumed" ? person : ""}${at ? `, ${shortTime(at)}` : ""}${because}`;
}

/** JSON, indented. */
export const pretty = (value) => (typeof value === "string" ? value : JSON.stringify(value ?? {}, null, 2));

/** Text as it is, in a box that scrolls. */
export const code = (text) => h("pre", { tabIndex: 0, role: "region", aria: { label: "value" } }, h("code", { dir: "ltr" }, visibleText(text)));
