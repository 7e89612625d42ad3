// The fold of history and events into what is shown: pure, so it is tested without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Conversation, textOf, thinkingOf } from "../../../../web/js/conversation.js";
import { EventSplitter } from "../../../../web/js/sse.js";

const at = "2026-01-01T00:00:00.000Z";
const said = (text) => ({ role: "user", content: text });
const answered = (text) => ({ role: "assistant", content: text });
const accepted = (turn, text) => ({ type: "turn.accepted", turn, at, message: said(text) });
const appended = (turn, k, message) => ({ type: "message.appended", turn, at, message_id: `${turn}/${k}`, message });
const piece = (turn, k, run, n, text, so_far = false) => ({ type: "delta", turn, at, message_id: `${turn}/${k}`, run, n, text, so_far });
const completed = (turn) => ({ type: "turn.completed", turn, at, outcome: { status: "completed" } });

const fold = (...events) => {
  const it = new Conversation();
  for (const event of events) it.apply(event);
  return it;
};
const shown = (it) => it.turns.flatMap((turn) => turn.entries.map((entry) => textOf(entry.message)));

test("pieces are shown and the record replaces them", () => {
  const it = fold(accepted("a", "Hi"), piece("a", 1, 1, 0, "Hel"), piece("a", 1, 1, 1, "lo"));
  assert.deepEqual(shown(it), ["Hi", "Hello"]);
  it.apply(appended("a", 1, answered("Hello.")));
  it.apply(piece("a", 1, 1, 2, "late"));
  assert.deepEqual(shown(it), ["Hi", "Hello."]);
});

test("a higher run takes back what a lower one showed, and a late one is not heard", () => {
  const it = fold(accepted("a", "Hi"), piece("a", 1, 1, 0, "wrong"), piece("a", 1, 2, 0, "right"), piece("a", 1, 1, 1, " more"));
  assert.deepEqual(shown(it), ["Hi", "right"]);
});

test("who comes late gets the text so far in one piece", () => {
  const it = fold(accepted("a", "Hi"), piece("a", 1, 1, 7, "all of it", true), piece("a", 1, 1, 8, " and more"));
  assert.deepEqual(shown(it), ["Hi", "all of it and more"]);
});

const takenBy = (turn, k, own, text) => ({ turn, at, message_id: `${turn}/${k}`, message: said(text), side: { taken_by: turn, accepted_as: own } });
/** What is shown of the turns that the page shows. */
const inView = (it) => it.turns.filter((turn) => !turn.takenBy).map((turn) => turn.entries.map((entry) => textOf(entry.message)));

test("a message that steers is shown once: where it is taken", () => {
  const it = fold(accepted("a", "Hi"), { type: "turn.started", turn: "a", at }, appended("a", 1, answered("Wait.")), accepted("b", "hm"));
  assert.deepEqual(inView(it), [["Hi", "Wait."], ["hm"]]);
  const taken = takenBy("a", 2, "b", "hm");
  it.apply({ type: "message.taken", ...taken });
  it.apply(piece("a", 3, 1, 0, "I see"));
  it.apply({ type: "message.taken", ...taken });
  assert.deepEqual(inView(it), [["Hi", "Wait.", "hm", "I see"]]);
  for (const event of [{ type: "message.appended", ...taken }, appended("a", 3, answered("I see.")), completed("b"), completed("a")]) it.apply(event);
  assert.deepEqual(inView(it), [["Hi", "Wait.", "hm", "I see."]]);
});

test("a message that is not taken after all has a turn of its own again", () => {
  const ends = [completed("a"), { type: "turn.restarted", turn: "a", at }, { type: "turn.errored", turn: "a", at, outcome: { status: "errored", category: "chat_turn_cancelled" } }];
  for (const end of ends) {
    const it = fold(accepted("a", "Hi"), { type: "turn.started", turn: "a", at }, accepted("b", "hm"), { type: "message.taken", ...takenBy("a", 1, "b", "hm") });
    assert.deepEqual(inView(it), [["Hi", "hm"]]);
    it.apply(end);
    assert.deepEqual(inView(it), [["Hi"], ["hm"]]);
  }
});

test("a turn that failed may be run again although it took a message", () => {
  const it = fold(accepted("a", "Hi"), accepted("b", "hm"), { type: "message.appended", ...takenBy("a", 1, "b", "hm") });
  for (const turn of ["b", "a"]) it.apply({ type: "turn.errored", turn, at, outcome: { status: "errored", category: "provider_unavailable" } });
  assert.deepEqual(it.turns.map((turn) => [turn.id, it.canRetry(turn)]), [["a", true], ["b", false]]);
});

test("history and log may tell the same twice", () => {
  const it = new Conversation();
  it.takeHistory({ items: [{ seq: 4, id: "a/0", at, ...said("Hi") }, { seq: 5, id: "a/1", at, ...answered("Hello.") }] });
  for (const event of [accepted("a", "Hi"), appended("a", 1, answered("Hello.")), completed("a"), accepted("b", "More")]) it.apply(event);
  assert.deepEqual(shown(it), ["Hi", "Hello.", "More"]);
  assert.equal(it.oldest, 4);
  it.takeHistory({ items: [{ seq: 2, id: "z/0", at, ...said("Before") }, { seq: 3, id: "z/1", at, ...answered("Yes.") }] });
  assert.deepEqual(shown(it), ["Before", "Yes.", "Hi", "Hello.", "More"]);
});

test("a turn that runs is open also where its first messages are history already", () => {
  const conversation = new Conversation();
  conversation.takeHistory({ items: [{ id: "a/0", seq: 0, at, ...said("Hi") }, { id: "a/1", seq: 1, at, ...answered("One.") }] });
  const turn = conversation.turns[0];
  assert.equal(turn.status, "completed");
  conversation.apply({ type: "turn.started", turn: "a", at });
  assert.equal(turn.status, "open");
  conversation.apply(completed("a"));
  assert.equal(turn.status, "completed");
});

test("a turn that waits for others stands where it begins", () => {
  const it = fold(accepted("a", "one"), accepted("b", "two"), appended("a", 1, answered("1")), completed("a"), appended("b", 1, answered("2")), completed("b"));
  assert.deepEqual(shown(it), ["one", "1", "two", "2"]);
  const parked = fold(
    accepted("a", "ask"),
    { type: "turn.suspended", turn: "a", at, outcome: { status: "suspended", wait: { number: 1, signal: "s" } } },
    accepted("b", "next"),
    { type: "signal.received", turn: "a.1", at, wait: 1, signal: "s", how: "consumed" },
    appended("a.1", 0, answered("done")),
    completed("a.1"),
    appended("b", 1, answered("answer")),
    completed("b"),
  );
  assert.deepEqual(shown(parked), ["ask", "done", "next", "answer"]);
  assert.equal(parked.waiting, undefined);
});

test("a failed turn keeps its message and what was shown of its answer, and says why", () => {
  const failed = { type: "turn.errored", turn: "a", at, outcome: { status: "errored", category: "provider_unavailable" } };
  const conversation = fold(accepted("a", "Hi"), piece("a", 1, 1, 0, "half"), failed);
  assert.deepEqual(shown(conversation), ["Hi", "half"]);
  assert.equal(conversation.turns[0].entries[1].partial, true);
  assert.equal(conversation.turns[0].error.category, "provider_unavailable");
  assert.equal(conversation.running, false);
});

test("failed turns of a history stand where they were, whole, and only the newest can be tried again", () => {
  const error = { category: "provider_unavailable", bucket: "retryable_transient", reply: "No." };
  const failed = [
    { turn: "f", place: 1, accepted_at: at, effects: false, message: { role: "user", content: "fails" }, made: [answered("half of")], error },
    { turn: "g", place: 2, accepted_at: at, effects: true, error },
    { turn: "h", place: 3, accepted_at: at, effects: false, message: said("fails too"), error },
  ];
  const items = [{ seq: 0, id: "a/0", at, ...said("Hi") }, { seq: 1, id: "b/0", at, ...said("More") }, { seq: 2, id: "g/0", at, ...said("acts") }];
  const conversation = new Conversation();
  conversation.takeHistory({ items, failed });
  assert.deepEqual(shown(conversation), ["Hi", "fails", "half of", "More", "acts", "fails too"]);
  const turn = (id) => conversation.turns.find((one) => one.id === id);
  assert.deepEqual(["a", "f", "g", "h"].map((id) => turn(id).status), ["completed", "errored", "errored", "errored"]);
  assert.equal(turn("f").entries[1].partial, true);
  assert.deepEqual(["a", "f", "g", "h"].map((id) => conversation.canRetry(turn(id))), [false, false, false, true]);
  assert.equal(conversation.beginning, "Hi");
  conversation.takeHistory({ items: [], failed: [{ ...failed[2], retried_by: "i" }] });
  assert.equal(conversation.canRetry(turn("h")), false);
  assert.equal(conversation.turns.length, 5, "nothing is there twice");
});

test("a tool that failed in a turn that failed is shown as failed in its history, too", () => {
  const conversation = new Conversation();
  const call = { id: "c", name: "divide", arguments: {} };
  const made = [{ role: "assistant", content: "", tool_calls: [call] }, { role: "tool", tool_call_id: "c", content: "by zero", side: { success: false } }];
  const error = { category: "provider_unavailable", reply: "Sorry." };
  conversation.takeHistory({ items: [], failed: [{ turn: "f", place: 0, accepted_at: at, effects: false, message: said("Divide."), made, error }] });
  const [turn] = conversation.turns;
  assert.equal(conversation.callState(turn, call).state, "failed");
});

test("a turn works from its acceptance on, and is queued only behind another one", () => {
  const conversation = fold(accepted("a", "one"));
  assert.equal(conversation.isQueued(conversation.turns[0]), false);
  conversation.apply(accepted("b", "two"));
  assert.deepEqual(conversation.turns.map((turn) => conversation.isQueued(turn)), [false, true]);
  conversation.apply({ type: "turn.started", turn: "a", at });
  assert.deepEqual([conversation.running, conversation.isQueued(conversation.turns[1])], [true, true]);
  conversation.apply(completed("a"));
  assert.equal(conversation.isQueued(conversation.turns[1]), false);
});

test("a retried model call and a restarted turn say so until text comes", () => {
  const conversation = fold(accepted("a", "Hi"), { type: "turn.started", turn: "a", at });
  const [turn] = conversation.turns;
  const retrying = (late) => {
    const time = (ms) => new Date(Date.now() + late + ms).toISOString();
    conversation.apply({ type: "turn.retrying", turn: "a", at: time(0), attempt: 2, until: time(30_000), category: "provider_rate_limit" });
    return Math.round((turn.activity.until - Date.now()) / 1000);
  };
  assert.deepEqual([retrying(0), retrying(-10_000), retrying(3_600_000), retrying(-3_600_000)], [30, 20, 30, 0], "it is never later than the server says");
  assert.equal(turn.activity.state, "retrying");
  conversation.apply(piece("a", 1, 1, 0, "some text"));
  assert.equal(turn.activity, null);
  conversation.apply({ type: "turn.restarted", turn: "a", at });
  assert.deepEqual([shown(conversation), turn.activity.state], [["Hi"], "restarted"]);
  conversation.apply(piece("a", 1, 2, 0, "anew"));
  assert.deepEqual([shown(conversation), turn.activity.state], [["Hi", "anew"], "restarted"]);
  conversation.apply(completed("a"));
  assert.equal(turn.activity, null);
});

test("thinking is kept apart from the answer; a higher run replaces it", () => {
  const thought = (run, n, text, so_far = false) => ({ type: "thinking.delta", turn: "a", at, message_id: "a/1", run, n, text, so_far });
  const conversation = fold(accepted("a", "Hi"), thought(1, 0, "Let me "), thought(1, 1, "see."), thought(2, 0, "Again."), thought(1, 2, " late"));
  assert.equal(conversation.turns[0].thinking.get("a/1").text, "Again.");
  conversation.apply(thought(2, 4, "Again, whole.", true));
  assert.equal(conversation.turns[0].thinking.get("a/1").text, "Again, whole.");
  assert.deepEqual(shown(conversation), ["Hi"]);
  assert.equal(thinkingOf({ role: "assistant", content: [{ type: "thinking", text: "so" }, { type: "text", text: "said" }] }), "so");
});

const call = (id) => ({ id, name: "send", arguments: {} });
const waits = (turn, number, id) => ({ type: "turn.suspended", turn, at, outcome: { status: "suspended", wait: { number, signal: `s${number}`, action: "d", metadata: { call_id: id } } } });
const received = (turn, number) => ({ type: "signal.received", turn, at, wait: number, signal: `s${number}`, how: "consumed", from: "Ann" });
const result = (turn, k, id, content, side) => ({ ...appended(turn, k, { role: "tool", tool_call_id: id, content }), side });
const states = (conversation) => {
  const turn = conversation.turns.find((one) => one.id === "a");
  return ["one", "two", "three"].map((id) => conversation.callState(turn, call(id)).state);
};

test("of several calls each says how it stands, through all approvals", () => {
  const conversation = fold(accepted("a", "send"), appended("a", 1, { ...answered(""), tool_calls: ["one", "two", "three"].map(call) }), waits("a", 1, "one"));
  assert.deepEqual(states(conversation), ["waits", "queued", "queued"]);
  for (const event of [received("a.1", 1), waits("a.1", 2, "two")]) conversation.apply(event);
  assert.deepEqual(states(conversation), ["decided", "waits", "queued"]);
  conversation.apply(received("a.2", 2));
  conversation.apply({ type: "tool.started", turn: "a.2", at, call: "one" });
  assert.deepEqual(states(conversation), ["running", "queued", "queued"]);
  conversation.apply(result("a.2", 0, "one", "sent"));
  conversation.apply(result("a.2", 1, "two", '{"status":"denied","reason":"no"}', { denied: "not to him" }));
  conversation.apply(result("a.2", 2, "three", "error: no network", { success: false }));
  conversation.apply(completed("a.2"));
  assert.deepEqual(states(conversation), ["done", "closed", "failed"]);
  const decisionOf = (id) => conversation.callState(conversation.turns[0], call(id)).decision;
  assert.deepEqual([decisionOf("one").approved, decisionOf("one").by], [true, "Ann"]);
  assert.deepEqual([decisionOf("two").approved, decisionOf("two").reason], [false, "not to him"]);
  assert.equal(decisionOf("three"), null);
});

test("who decided before the page was opened comes from the timeline, once", () => {
  const conversation = new Conversation();
  conversation.takeHistory({ items: [{ seq: 0, id: "a/0", at, ...said("send") }, { seq: 1, id: "a/1", at, ...answered(""), tool_calls: [call("one")] }, { seq: 2, id: "a.1/0", at, role: "tool", tool_call_id: "one", content: "sent" }] });
  const [turn] = conversation.turns;
  assert.equal(conversation.lacksDecisions(turn), true);
  conversation.takeDecisions(turn, [{ status: "consumed", metadata: { call_id: "one" }, answered_by: "Ann", ended_at: 5 }]);
  assert.equal(conversation.lacksDecisions(turn), false);
  assert.deepEqual(conversation.callState(turn, call("one")).decision, { how: "consumed", by: "Ann", at: 5, approved: true });
});

test("a stream is cut anywhere", () => {
  const text = ': ka\n\nid: e.1\ndata: {"a":\ndata: 1}\n\nretry: 100\n\ndata: x\r\n\r\n';
  const whole = new EventSplitter().push(text);
  for (let cut = 0; cut <= text.length; cut += 1) {
    const splitter = new EventSplitter();
    const parts = [...splitter.push(text.slice(0, cut)), ...splitter.push(text.slice(cut))];
    assert.deepEqual(parts, whole, `cut at ${cut}`);
  }
  assert.deepEqual(whole.map((it) => it.data), ['{"a":\n1}', null, "x"]);
});
