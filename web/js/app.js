// The page put together: which conversation is open, what flows into it, what a person does with it.

import { Problem, api } from "./api.js";
import { approvalCard } from "./approval.js";
import { Composer } from "./composer.js";
import { Conversation, textOf } from "./conversation.js";
import { fill, h } from "./dom.js";
import { Inspector } from "./inspector.js";
import { warm } from "./markdown.js";
import { Sessions } from "./sessions.js";
import { signIn } from "./sign_in.js";
import { turnView } from "./turn_view.js";
import { VirtualList } from "./virtual.js";

const PAGE = 100;
const $ = (id) => document.getElementById(id);

const state = { session: null, agent: null, conversation: new Conversation(), unfollow: () => {}, editing: null, loading: false };

const composer = new Composer({ send, stop, upload });
const sessions = new Sessions(api, { remove, called });
const inspector = new Inspector(api);
const list = new VirtualList($("scroller"), $("turns"), (item, element) => turnView(item.turn, acts, element));

const acts = {
  results: (turn) => state.conversation.results(turn),
  agentOf: () => state.agent ?? "agent",
  imageUrl: (url) => (url.startsWith("blob:") ? api.blobUrl(state.session, url.slice(5)) : null),
  approval: (turn) => approvalCard(turn, answer),
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
  if (error instanceof Problem && error.status === 401) return void signIn(api, start);
  say(error.hint ? `${error.message} (${error.hint})` : error.message);
}

/** Says above the conversation how it is called; its id is the name until then. */
function called(id, title) {
  $("title").textContent = title ?? id;
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
  list.set(conversation.turns.filter((it) => it.entries.length || it.wait || it.error || it.forked || (it.begun && it.status === "open")).map((turn) => ({ id: turn.id, version: turn.version ?? 0, turn })));
  composer.running = conversation.running;
  $("empty").hidden = conversation.turns.length > 0 || state.loading;
}

/** Ends when what is opened has been read: nothing is sent into a conversation of which the page does not know whether it is there. */
let opened = Promise.resolve();
const open = (id, isNew = false) => (opened = opening(id, isNew));

async function opening(id, isNew) {
  state.unfollow();
  Object.assign(state, { session: id, agent: null, editing: null, conversation: new Conversation(), loading: true });
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
    fail(error);
  }
  if (state.session !== id) return;
  state.loading = false;
  $("pick").hidden = state.agent !== null || $("pick").options.length < 2;
  $("agent").textContent = state.agent ?? "";
  inspector.open(id, state.agent ?? $("pick").value);
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
  }
}

function saw({ id, data }) {
  const event = JSON.parse(data);
  inspector.saw(event, id);
  const turn = state.conversation.apply(event);
  if (!turn) return;
  show(turn);
  if (event.type !== "delta") state.conversation.alike(turn).forEach(show);
  if (event.type === "signal.received") state.conversation.turns.forEach(show);
  if (event.type.startsWith("turn.") && event.type !== "turn.accepted") {
    sessions.refresh().then(count, () => {});
    say(event.type === "turn.suspended" ? "The agent waits for you." : event.type === "turn.errored" ? "The turn failed." : "The agent has answered.");
  }
}

function count(waiting) {
  document.title = waiting ? `(${waiting}) singletree` : "singletree";
}

async function line(now, response) {
  $("line").hidden = now === "open";
  if (now === "lost") $("line").textContent = "The connection is lost; coming again…";
  if (now !== "refused") return;
  if (response.status === 401) return signIn(api, start);
  if (response.status === 404) return say("This conversation is not here any more.");
  // What was seen last is not kept any more: begin anew.
  return open(state.session);
}

async function send(text, images, to = null) {
  await opened;
  if (state.session === null || (to !== null && to !== state.session)) return false;
  const blocks = images.map((url) => ({ type: "image", source: { type: "url", url } }));
  const content = blocks.length ? [...(text ? [{ type: "text", text }] : []), ...blocks] : text;
  const [id, editing] = [state.session, state.editing];
  state.editing = null;
  list.toEnd();
  try {
    if (editing) return await fork(() => api.edit(id, { message: editing, content }));
    await exists(id);
    await (state.conversation.running ? api.steer : api.send)(id, { content }, crypto.randomUUID());
    return true;
  } catch (error) {
    fail(error);
    return false;
  }
}

/** Makes the conversation before anything is said in it, and listens: nothing of its first turn is missed. */
async function exists(id) {
  if (state.agent !== null) return;
  const made = await api.create({ id, agent: $("pick").value || undefined });
  if (state.session !== id) return;
  state.agent = made.agent;
  $("agent").textContent = made.agent;
  $("pick").hidden = true;
  history.replaceState(null, "", `#/s/${encodeURIComponent(id)}`);
  sessions.current = id;
  inspector.open(id, made.agent);
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
  fill($("pick"), agents.items.map((it) => h("option", { value: it.id }, it.name)));
  $("pick").hidden = agents.items.length < 2;
  await route();
}

$("compose").replaceWith(composer.element);
$("list").replaceWith(sessions.element);
$("inspector").append(inspector.element);
$("new").onclick = () => (location.hash = "#/new") && route();
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
