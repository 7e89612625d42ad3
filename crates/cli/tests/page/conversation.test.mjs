// The fold of history and events into what is shown: pure, so it is tested without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Conversation, textOf } from "../../../../web/js/conversation.js";
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

test("history and log may tell the same twice", () => {
  const it = new Conversation();
  it.takeHistory([{ seq: 4, id: "a/0", at, ...said("Hi") }, { seq: 5, id: "a/1", at, ...answered("Hello.") }]);
  for (const event of [accepted("a", "Hi"), appended("a", 1, answered("Hello.")), completed("a"), accepted("b", "More")]) it.apply(event);
  assert.deepEqual(shown(it), ["Hi", "Hello.", "More"]);
  assert.equal(it.oldest, 4);
  it.takeHistory([{ seq: 2, id: "z/0", at, ...said("Before") }, { seq: 3, id: "z/1", at, ...answered("Yes.") }]);
  assert.deepEqual(shown(it), ["Before", "Yes.", "Hi", "Hello.", "More"]);
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

test("a failed turn shows why, and nothing that was only on its way", () => {
  const it = fold(accepted("a", "Hi"), piece("a", 1, 1, 0, "half"), { type: "turn.errored", turn: "a", at, outcome: { status: "errored", category: "provider_unavailable" } });
  assert.deepEqual(shown(it), ["Hi"]);
  assert.equal(it.turns[0].error.category, "provider_unavailable");
  assert.equal(it.running, false);
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
