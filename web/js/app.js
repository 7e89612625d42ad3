// The page put together: which conversation is open, what flows into it, what a person does with it.

import { Problem, api } from "./api.js";
import { approvalCard } from "./approval.js";
import { Composer } from "./composer.js";
import { Conversation, imagesOf, textOf } from "./conversation.js";
import { fill, h } from "./dom.js";
import { Inspector } from "./inspector.js";
import { warm } from "./markdown.js";
import { Outbox } from "./outbox.js";
import { Sessions } from "./sessions.js";
import { signIn } from "./sign_in.js";
import { WAITS, turnView } from "./turn_view.js";
import { VirtualList } from "./virtual.js";

const PAGE = 100;
const $ = (id) => document.getElementById(id);

const state = { session: null, agent: null, agents: [], conversation: new Conversation(), unfollow: () => {}, editing: null, loading: false };

const composer = new Composer({ send, stop, upload });
const sessions = new Sessions(api, { remove, called });
const inspector = new Inspector(api);
const outbox = new Outbox({ deliver, onChange: () => show(), onRefused: refused });
const list = new VirtualList($("scroller"), $("turns"), (item, element) => turnView(item.turn, acts, element));

const acts = {
  results: (turn) => state.conversation.results(turn),
  agentOf: () => state.agent ?? "agent",
  imageUrl: (url) => (url.startsWith("blob:") ? api.blobUrl(state.session, url.slice(5)) : null),
  // The card stays as long as what it asks.
  approval: (turn) => (turn.wait.card ??= approvalCard(turn.wait, state.conversation.placeOf(turn), answer)),
  edit: (entry) => {
    state.editing = entry.id;
    composer.text = textOf(entry.message);
    say("What you send now says this otherwise, in a fork. The conversation stays as it is.");
  },
  again: (entry) => fork(() => api.regenerate(state.session, { reply: entry.id })),
  retry: (turn) => send(textOf(turn.entries.find((it) => it.message.role === "user").message), [], state.session),
  copy: (text) => navigator.clipboard.writeText(text).then(() => say("Copied.")),
};

/** Says something to everybody, screen readers too. */
function say(words) {
  $("status").textContent = words;
}

function fail(error) {
  if (error instanceof Problem && error.status === 401) return void signInAnew();
  say(error.hint ? `${error.message} (${error.hint})` : error.message);
}

const signInAnew = () => signIn(api, () => (outbox.giveBack(), start()));

/** Says above the conversation how it is called; its id is the name until then. */
function called(id, title) {
  $("title").textContent = title ?? (named() ? id : "New conversation");
  $("title").title = id;
}

/** Shows what changed, once a frame however much that was; the time that showing costs is not spent more often than it can bear. */
const changed = new Set();
let frame = 0;
function show(turn) {
  if (turn) changed.add(turn);
  frame ||= setTimeout(() => requestAnimationFrame(render), Math.min(list.cost * 3, 250));
}

function render() {
  frame = 0;
  for (const turn of changed) turn.version = (turn.version ?? 0) + 1;
  changed.clear();
  const { conversation } = state;
  const known = conversation.turns.filter((it) => it.entries.length || it.wait || it.error || it.forked || (it.begun && it.status === "open"));
  told = told.filter((it) => !conversation.turns.some((turn) => turn.id === it.turn));
  const ours = [...told, ...outbox.of(state.session).filter((it) => !it.seen)];
  const turns = [...known, ...ours.map(unsent)];
  list.set(turns.map((turn) => ({ id: turn.id, version: turn.version ?? 0, turn })));
  composer.running = conversation.running;
  $("empty").hidden = turns.length > 0 || state.loading;
  if (!$("empty").hidden) fill($("examples"), examples().map((it) => h("button", { type: "button", onclick: () => send(it, []) }, it)));
}

/** What was accepted in the conversation that is open, until the event that says so has come. */
let told = [];

/** What was said and not accepted yet looks like a turn that has not begun. */
const unsent = ({ key, content }) => ({ id: `unsent-${key}`, status: "open", unsent: true, entries: [{ id: key, message: { role: "user", content } }], calls: new Map() });

/** What one may say to the agent that would answer. */
function examples() {
  const agent = state.agents.find((it) => it.id === (state.agent ?? $("pick").value));
  return Array.isArray(agent?.examples) ? agent.examples.map(String) : [];
}

/** Ends when what is opened has been read: nothing is sent into a conversation of which the page does not know whether it is there. */
let opened = Promise.resolve();
const open = (id, isNew = false) => (opened = opening(id, isNew));

async function opening(id, isNew) {
  state.unfollow();
  Object.assign(state, { session: id, agent: null, editing: null, conversation: new Conversation(), loading: true });
  told = [];
  mine.clear();
  list.clear();
  sessions.current = id;
  composer.open(id);
  document.body.classList.remove("drawer");
  show();
  let after;
  try {
    if (!isNew) {
      const info = await api.session(id);
      state.agent = info.agent;
      after = await newest(info.messages);
    }
  } catch (error) {
    // What was said in it has not been accepted yet: it is made with that.
    if (error.status !== 404 || outbox.of(id).length === 0) fail(error);
  }
  if (state.session !== id) return;
  state.loading = false;
  $("pick").hidden = state.agent !== null || $("pick").options.length < 2;
  $("agent").textContent = state.agent ?? "";
  inspector.open(id, state.agent ?? $("pick").value, state.conversation.turns.at(-1)?.id);
  sessions.current = id;
  show();
  if (state.agent === null) return;
  await waits(id);
  follow(id, after);
}

function follow(id, after) {
  state.unfollow = api.follow(id, { after, onEvent: (it) => id === state.session && saw(it), onState: (it, response) => id === state.session && line(it, response) });
}

/** Reads the end of a history, with what comes to it meanwhile: only a page that nothing follows says after which event to listen. */
async function newest(length) {
  const { conversation, session } = state;
  const items = [];
  let page = { next: Math.max(0, length - PAGE) };
  while (page.next != null) {
    page = await api.messages(session, { from: page.next, limit: PAGE });
    items.push(...page.items);
  }
  if (state.conversation !== conversation) return undefined;
  conversation.takeHistory(items);
  show();
  return page.last_event;
}

/** Reads the page of history before what is here. */
async function older(before) {
  const { conversation, session } = state;
  const from = Math.max(0, before - PAGE);
  const page = await api.messages(session, { from, limit: before - from });
  if (state.conversation !== conversation) return;
  conversation.takeHistory(page.items);
  show();
}

/** What waits since before this page was here. */
async function waits(id) {
  const pending = await api.pending(id).catch(() => ({ items: [] }));
  for (const wait of pending.items) {
    const turn = state.conversation.turns.findLast((it) => it.id.startsWith(wait.invocation));
    if (turn) Object.assign(turn, { wait, status: "suspended" });
    if (turn) show(turn);
    if (turn) say(WAITING);
  }
}

const WAITING = "The agent waits for you.";

function saw({ id, data }) {
  const event = JSON.parse(data);
  inspector.saw(event, id);
  const turn = state.conversation.apply(event);
  if (!turn) return;
  if (event.type === "turn.accepted") accepted(event);
  if (event.type === "delta" || event.type === "signal.received") say("");
  show(turn);
  if (event.type !== "delta") state.conversation.alike(turn).forEach(show);
  if (event.type === "signal.received") state.conversation.turns.forEach(show);
  if (event.type.startsWith("turn.") && event.type !== "turn.accepted") {
    sessions.refresh().then(count, () => {});
    say(event.type === "turn.suspended" ? WAITING : event.type === "turn.errored" ? FAILED[turn.error?.category] ?? "The turn failed." : "The agent has answered.");
    turnedBack(turn);
  }
}

const FAILED = { chat_turn_cancelled: "Stopped.", [WAITS]: WAITING };

/** What was on its way has come: it may be told of before the answer that says so. */
function accepted({ message }) {
  say("");
  if (message && state.conversation.turns.length === 1) sessions.begins(state.session, textOf(message));
  const said = JSON.stringify(message?.content);
  const item = outbox.of(state.session).find((it) => !it.seen && JSON.stringify(it.content) === said);
  if (item) item.seen = true;
}

/** What was said in vain, since the conversation waits for a person, is in the box again where it was said: by this page, in a turn that has not ended. */
const mine = new Set();
function turnedBack(turn) {
  if (!turn || turn.status === "open" || !mine.delete(turn.id)) return;
  if (turn.error?.category === WAITS) giveBack(state.session, turn.entries[0].message);
}

function giveBack(session, message) {
  composer.giveBack(session, textOf(message), imagesOf(message).map((blob) => ({ blob, name: "image" })));
}

function count(waiting) {
  document.title = waiting ? `(${waiting}) singletree` : "singletree";
  $("menu").dataset.waiting = waiting || "";
  $("menu").setAttribute("aria-label", waiting ? `Conversations, ${waiting} waiting for you` : "Conversations");
}

async function line(now, response) {
  $("line").hidden = now === "open";
  if (now === "open") outbox.hurry();
  if (now === "lost") say("");
  if (now === "lost") $("line").textContent = "The connection is lost. Reconnecting…";
  if (now !== "refused") return;
  if (response.status === 401) return signInAnew();
  if (response.status === 404) return say("This conversation is not here any more.");
  // What was seen last is not kept any more: begin anew.
  return open(state.session);
}

async function send(text, images, to = null) {
  await opened;
  if (state.session === null || (to !== null && to !== state.session)) return false;
  const blocks = images.map((url) => ({ type: "image", source: { type: "url", url } }));
  const content = blocks.length ? [...(text ? [{ type: "text", text }] : []), ...blocks] : text;
  const [session, editing] = [state.session, state.editing];
  state.editing = null;
  list.toEnd();
  if (editing) return fork(() => api.edit(session, { message: editing, content }));
  // One that is not made yet is made with what is said first in it.
  const fresh = state.agent === null ? { agent: $("pick").value } : {};
  history.replaceState(null, "", `#/s/${encodeURIComponent(session)}`);
  outbox.add({ key: crypto.randomUUID(), at: Date.now(), session, content, steer: state.conversation.running, ...fresh });
  return true;
}

async function deliver(item) {
  const { key, session, agent, content, steer } = item;
  if (agent !== undefined) await exists(session, agent);
  const turn = await (steer ? api.steer : api.send)(session, { content }, key);
  if (session !== state.session || !turn?.id) return;
  if (!item.seen) told.push({ ...item, turn: turn.id });
  mine.add(turn.id);
  turnedBack(state.conversation.turns.find((it) => it.id === turn.id));
}

function refused({ session, content }, problem) {
  giveBack(session, { content });
  if (problem) fail(problem);
}

/** Makes the conversation before anything is said in it, and listens: nothing of its first turn is missed. */
async function exists(id, agent) {
  const made = await api.create({ id, agent: agent || undefined }).catch((problem) => {
    if (problem.category !== "chat_session_exists") throw problem;
  });
  if (state.session !== id || state.agent !== null) return;
  // It was made before, and the answer got lost; or another page was first.
  if (!made) return open(id);
  state.agent = made.agent;
  $("agent").textContent = made.agent;
  $("pick").hidden = true;
  sessions.current = id;
  inspector.open(id, made.agent);
  sessions.refresh().then(count, () => {});
  follow(id);
}

async function stop() {
  const running = state.conversation.open.filter((it) => it.begun);
  await Promise.all(running.map((it) => api.cancel(state.session, it.id))).catch(fail);
}

async function upload(file) {
  try {
    return (await api.upload(state.session, file)).blob;
  } catch (error) {
    return fail(error), null;
  }
}

async function answer(wait, payload) {
  const named = wait.action ? { wait: wait.number, action: wait.action } : {};
  await api.answer(state.session, wait.signal, { payload, ...named });
}

async function fork(making) {
  try {
    const made = await making();
    location.hash = `#/s/${encodeURIComponent(made.session)}`;
    return true;
  } catch (error) {
    fail(error);
    return false;
  }
}

async function remove(id) {
  if (!confirm("Delete this conversation? It cannot be brought back.")) return;
  await api.remove(id).catch(fail);
  if (id === state.session) location.hash = "#/new";
  sessions.refresh().then(count, fail);
}

const LOST = "Some of your messages have not been sent yet. They are lost when you sign out.";

/** Ends the sign-in on the server; nothing of what was shown or written stays in the browser. */
async function signOut() {
  if (!outbox.isEmpty && !confirm(LOST)) return;
  try {
    await api.signOut();
  } catch (error) {
    return fail(error);
  }
  state.unfollow();
  outbox.clear();
  // A browser may keep a page that was left, and show it again.
  document.body.replaceChildren();
  location.replace("/");
}

const named = () => decodeURIComponent(/^#\/s\/(.+)$/.exec(location.hash)?.[1] ?? "");
const fresh = () => `chat-${crypto.randomUUID().slice(0, 8)}`;
const route = () => (named() ? open(named()) : open(fresh(), true));

const start = () => (opened = starting());

async function starting() {
  let agents;
  try {
    [agents] = await Promise.all([api.agents(), sessions.refresh().then(count)]);
  } catch (error) {
    return fail(error);
  }
  api.signedIn().then((it) => ($("leave").hidden = !it), () => {});
  state.agents = agents.items;
  fill($("pick"), agents.items.map((it) => h("option", { value: it.id }, it.name)));
  $("pick").hidden = agents.items.length < 2;
  await route();
  outbox.resume();
}

$("compose").replaceWith(composer.element);
$("list").replaceWith(sessions.element);
$("inspector").append(inspector.element);
$("pick").onchange = () => show();
$("new").onclick = () => (location.hash = "#/new") && route();
$("leave").onclick = signOut;
$("menu").onclick = () => document.body.classList.toggle("drawer");
$("inspect").onclick = () => {
  const on = document.body.classList.toggle("inspecting");
  $("inspect").setAttribute("aria-pressed", String(on));
  if (on) inspector.open(state.session, state.agent ?? $("pick").value);
};
$("bottom").onclick = () => list.toEnd();
list.onPinned = (pinned) => ($("bottom").hidden = pinned);
list.onTop = async () => {
  if (state.loading || state.conversation.oldest === 0) return;
  state.loading = true;
  await older(state.conversation.oldest).catch(fail);
  state.loading = false;
};
addEventListener("hashchange", route);
addEventListener("keydown", (it) => {
  if (it.key === "Escape") document.body.classList.contains("drawer") ? document.body.classList.remove("drawer") : stop();
});
start();
// What the first answer needs is made ready while nobody waits for it.
(globalThis.requestIdleCallback ?? setTimeout)(warm);
