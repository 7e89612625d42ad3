// The main module of the page: connects the open conversation, its events, and the actions of the user.

import { Problem, api } from "./api.js";
import { approvalCard } from "./approval.js";
import { campaignAddress, campaignOf, labelLinks, markShownKind, showsCampaigns } from "./campaign_links.js";
import { Composer } from "./composer.js";
import { Conversation, imagesOf, textOf } from "./conversation.js";
import { fill, h } from "./dom.js";
import { clearDrafts, newSessionId, useSessionId } from "./drafts.js";
import { Inspector } from "./inspector.js";
import { warm } from "./markdown.js";
import { Outbox } from "./outbox.js";
import { Sessions } from "./sessions.js";
import { signIn } from "./sign_in.js";
import { followAllSessions } from "./tenant_events.js";
import { SUSPENDED, turnView } from "./turn_view.js";
import { VirtualList } from "./virtual.js";

const PAGE = 100;
const $ = (id) => document.getElementById(id);

const state = { session: null, agent: null, policy: null, agents: [], conversation: new Conversation(), unfollow: () => {}, loading: false };

const composer = new Composer({ send, stop, upload });
const sessions = new Sessions(api, { remove, titled, nameOf: (id) => turnActions.nameOf(id) });
const inspector = new Inspector(api);
/** Made when the first campaign is shown: most pages show none. */
let campaigns = null;
const outbox = new Outbox({ deliver, onChange: () => show(), onRefused: returnRefused });

const turnActions = {
  callState: (turn, call) => {
    readDecisions(turn);
    return state.conversation.callState(turn, call);
  },
  isQueued: (turn) => (turn.unsent ? state.conversation.open.length > 0 : state.conversation.isQueued(turn)),
  waitsForAnswer: () => Boolean(state.conversation.waiting),
  steers: (turn) => steering.has(turn.id),
  canRetry: (turn) => state.conversation.canRetry(turn),
  isOutsideHistory: (turn) => state.conversation.isOutsideHistory(turn),
  agentOf: () => state.agent ?? "agent",
  nameOf: (id) => state.agents.find((agent) => agent.id === id)?.name ?? id,
  imageUrl: (url) => (url.startsWith("blob:") ? api.blobUrl(state.session, url.slice(5)) : null),
  // The card is kept as long as its wait, so that typed text and the record of the parts seen are not lost.
  approval: (turn) => (turn.wait.card ??= approvalCard(turn.wait, reasonFor(turn), (wait, payload) => answer(turn, wait, payload))),
  edit: ({ id, message }) => composer.beginEdit(id, textOf(message), imagesOf(message).map((url) => ({ url, name: "image" }))),
  regenerate: (entry) => openCopy(() => api.regenerate(state.session, { reply: entry.id })),
  retry,
  copy: (text) => navigator.clipboard.writeText(text).then(() => tell("Copied.")),
  focusLost: () => (document.querySelector(".approval") ?? $("scroller")).focus({ preventScroll: true }),
};
const list = new VirtualList($("scroller"), $("turns"), (item, element) => turnView(item.turn, turnActions, element));

/** Shows a message below the composer and announces it to screen readers. */
function tell(words) {
  $("status").className = "note";
  $("status").textContent = words;
}

/** Announces to screen readers a change that others see in the conversation. */
function announce(words) {
  $("status").className = "note unseen";
  $("status").textContent = words;
}

function fail(error) {
  if (error instanceof Problem && error.status === 401) return void signInAnew();
  tell(error.hint ? `${error.message} (${error.hint})` : error.message);
}

const signInAnew = () => signIn(api, () => (outbox.giveBack(), start()));

/** Shows the title of the open conversation. */
function titled(id, title) {
  if (showsCampaigns()) return;
  $("title").textContent = title ?? "New conversation";
  $("title").title = id ?? "";
}

/** Turns to render again. Rendering runs at most once per frame, and less often when layout is slow. */
const changed = new Set();
let frame = 0;
function show(turn) {
  if (turn) changed.add(turn);
  frame ||= setTimeout(() => requestAnimationFrame(render), Math.min(list.cost * 3, 250));
}

/** Messages that were accepted in the open conversation and of which no event has come yet. */
let accepted = [];

/** The queue as it was last rendered, to find out whether it changed. */
let shownQueue = "";

function render() {
  frame = 0;
  const { conversation } = state;
  const queue = JSON.stringify([Boolean(conversation.waiting), conversation.open.map((turn) => [turn.id, conversation.isQueued(turn)]), conversation.turns.at(-1)?.id]);
  // The view of a turn depends on other turns: it may be queued, or may be tried again.
  if (queue !== shownQueue) conversation.turns.filter((turn) => turn.status === "open" || turn.error).forEach((turn) => changed.add(turn));
  shownQueue = queue;
  for (const turn of changed) turn.version = (turn.version ?? 0) + 1;
  changed.clear();
  const known = conversation.turns.filter((turn) => !turn.takenBy).filter((turn) => turn.entries.length || turn.wait || turn.error || turn.thinking.size || (turn.begun && turn.status === "open"));
  accepted = accepted.filter((item) => !conversation.turns.some((turn) => turn.id === item.turn));
  const unsent = [...accepted, ...outbox.of(state.session).filter((item) => !item.isKnown)];
  const turns = [...known, ...unsent.map(unsentTurn)];
  list.set(turns.map((turn) => ({ id: turn.id, version: turn.version ?? 0, turn })));
  composer.canStop = conversation.open.length > 0 || unsent.length > 0;
  composer.placeholder = placeholder();
  if (!state.loading) sessions.setTitle(state.session, conversation.beginning);
  $("empty").hidden = turns.length > 0 || state.loading;
  if (!$("empty").hidden) fill($("examples"), examples().map((text) => h("button", { type: "button", onclick: () => send({ text, images: [] }) }, text)));
}

/** A message that was not accepted yet looks like a turn that has not begun. */
const unsentTurn = ({ key, content }) => ({
  id: `unsent-${key}`, status: "open", unsent: true, entries: [{ id: key, recorded: true, message: { role: "user", content } }], byId: new Map(), calls: new Map(), thinking: new Map(),
});

const agentInfo = () => state.agents.find((agent) => agent.id === (state.agent ?? $("pick").value));

/** The agent's policy for messages that arrive while the conversation waits for a person. */
const whileSuspended = () => agentInfo()?.whileSuspended ?? "reject";

const ANSWER_FIRST = "Answer the question above first. Your message stays here.";

function placeholder() {
  if (takesCommands() && !state.conversation.waiting) return "Write a command; the agent is shown no earlier one";
  if (state.conversation.waiting) return { reject: "Answer the question first", queue: "Write a message for after the answer", supersede: "Write a message; it withdraws the question above" }[whileSuspended()];
  return state.conversation.running ? "Write a message; the agent reads it at its next step" : "Write a message";
}

/** Whether the agent is shown each message alone, and no conversation. */
const takesCommands = () => (state.policy ?? $("policy").value) === "command";

/** Shows who answers, and how. */
function showAgent() {
  const name = state.agent ? turnActions.nameOf(state.agent) : "";
  $("agent").textContent = name && takesCommands() ? `${name} · takes commands` : name;
}

/** Messages that the agent's configuration suggests. */
function examples() {
  const suggested = agentInfo()?.examples;
  return Array.isArray(suggested) ? suggested.map(String) : [];
}

/** Resolves when the open conversation was read; until then the page does not know whether it exists. */
let opened = Promise.resolve();
const open = (id, isNew = false) => (opened = openSession(id, isNew));

async function openSession(id, isNew) {
  state.unfollow();
  Object.assign(state, { session: id, agent: null, policy: null, conversation: new Conversation(), unfollow: () => {}, loading: true });
  accepted = [];
  awaited.clear();
  steering.clear();
  list.clear();
  $("line").hidden = true;
  announce("");
  showOrigin(null);
  sessions.current = id;
  composer.open(id);
  closeDrawer();
  show();
  let after;
  try {
    if (!isNew) {
      const info = await api.session(id);
      if (state.session !== id) return;
      [state.agent, state.policy] = [info.agent, info.prompt_policy];
      showOrigin(info.parent);
      after = await readNewest(info.messages);
    }
  } catch (error) {
    // A conversation that does not exist yet is made with the first message that is sent in it.
    if (error.status !== 404 || outbox.of(id).length === 0) fail(error);
  }
  if (state.session !== id) return;
  state.loading = false;
  $("pick").hidden = state.agent !== null || $("pick").options.length < 2;
  $("policy").hidden = state.agent !== null;
  $("policy").value = agentInfo()?.promptPolicy ?? "conversation";
  showAgent();
  inspector.open(id, state.agent ?? $("pick").value, state.conversation.turns.at(-1)?.id);
  sessions.current = id;
  show();
  if (state.agent === null) return;
  await readPending(id);
  follow(id, after);
}

/** Shows a link to the conversation from which this one was copied. */
function showOrigin(parent) {
  $("origin").hidden = !parent;
  if (parent) fill($("origin"), "This is a copy. ", h("a", { href: `#/s/${encodeURIComponent(parent.session)}` }, "Back to the original"));
}

function follow(id, after) {
  if (id !== state.session) return;
  state.unfollow = api.follow(id, { after, onEvent: (event) => id === state.session && takeEvent(event), onState: (line, response) => id === state.session && lineChanged(line, response) });
}

/** Reads the end of a history. Returns the id of the event after which to listen, taken from the last page. */
async function readNewest(length) {
  const { conversation, session } = state;
  const [items, failed] = [[], []];
  let page = { next: Math.max(0, length - PAGE) };
  while (page.next != null) {
    page = await api.messages(session, { from: page.next, limit: PAGE });
    items.push(...page.items);
    failed.push(...(page.failed ?? []));
  }
  if (state.conversation !== conversation) return undefined;
  conversation.takeHistory({ items, failed });
  show();
  return page.last_event;
}

/** Reads the page of history before the oldest message that is known. */
async function readOlder(before) {
  const { conversation, session } = state;
  const from = Math.max(0, before - PAGE);
  const page = await api.messages(session, { from, limit: before - from });
  if (state.conversation !== conversation) return;
  conversation.takeHistory(page);
  show();
}

/** Reads the wait that began before this page was opened. */
async function readPending(id) {
  const pending = await api.pending(id).catch((error) => {
    fail(error);
    return { items: [] };
  });
  if (state.session !== id) return;
  for (const wait of pending.items) {
    const turn = state.conversation.turns.findLast((other) => other.id.startsWith(wait.invocation));
    if (!turn) continue;
    Object.assign(turn, { wait, status: "suspended" });
    show(turn);
    announce(WAITING);
  }
}

/** Reads the decisions about the calls of a turn that were made before this page was opened. */
function readDecisions(turn) {
  const { conversation, session } = state;
  if (!conversation.lacksDecisions(turn)) return;
  conversation.takeDecisions(turn);
  api.timeline(session, turn.id).then((timeline) => {
    conversation.takeDecisions(turn, timeline.waits);
    [turn, ...conversation.related(turn)].forEach(show);
  }, () => {});
}

/** The text with which the agent asked for the action that waits. */
function reasonFor(turn) {
  const message = state.conversation.askingMessage(turn);
  return message ? textOf(message) : "";
}

const WAITING = "The agent waits for your answer.";

function takeEvent({ id, data }) {
  const event = JSON.parse(data);
  inspector.take(event, id);
  const turn = state.conversation.apply(event);
  if (!turn) return;
  if (event.type === "turn.accepted") noteAccepted(event);
  if (event.type === "delta" || event.type === "signal.received") announce("");
  show(turn);
  if (event.type !== "delta" && event.type !== "thinking.delta") state.conversation.related(turn).forEach(show);
  if (event.type === "signal.received") state.conversation.turns.forEach(show);
  if (["turn.completed", "turn.suspended", "turn.errored"].includes(event.type)) {
    refreshList();
    announce(event.type === "turn.suspended" ? WAITING : event.type === "turn.errored" ? FAILED[turn.error?.category] ?? "The answer failed." : "The agent has answered.");
    giveBackRefused(turn);
  }
}

const FAILED = { chat_turn_cancelled: "Stopped.", [SUSPENDED]: WAITING };

/** The event of a message may come before the answer to the request that sent it. */
function noteAccepted({ message }) {
  announce("");
  const content = JSON.stringify(message?.content);
  const item = outbox.of(state.session).find((other) => !other.isKnown && JSON.stringify(other.content) === content);
  if (item) item.isKnown = true;
}

/** Turns of messages that this page sent and that have not ended. */
const awaited = new Set();

/** Turns of messages that this page sent to the turn that runs. */
const steering = new Set();

/** A message that was refused because the conversation waits for a person is in the form again. */
function giveBackRefused(turn) {
  if (!turn || turn.status === "open" || !awaited.delete(turn.id)) return;
  if (turn.error?.category === SUSPENDED) giveBack(state.session, turn.entries[0].message);
}

function giveBack(session, message) {
  composer.giveBack(session, textOf(message), imagesOf(message).map((url) => ({ url, name: "image" })));
}

let isRefreshing = false;
let isStale = false;

/** Reads the list anew, once at a time however many events ask for it. */
async function refreshList() {
  isStale = true;
  if (isRefreshing) return;
  isRefreshing = true;
  while (isStale) {
    isStale = false;
    await Promise.all([sessions.refresh().then(showCount, () => {}), campaigns?.refresh()]);
  }
  isRefreshing = false;
}

function showCount({ waiting, begun }) {
  document.title = waiting ? `(${waiting}) singletree` : "singletree";
  $("menu").dataset.waiting = waiting || "";
  $("menu").setAttribute("aria-label", waiting ? `Conversations, ${waiting} waiting for you` : "Conversations");
  const others = begun.filter((id) => id !== state.session);
  if (others.length > 0) announce(`Another conversation waits for your answer: ${sessions.titleOf(others[0])}`);
}

let isFollowingAll = false;

/** Listens to all conversations of this sign-in, so that the count of pending approvals is up to date. */
function followAll() {
  if (isFollowingAll) return;
  isFollowingAll = true;
  followAllSessions(api, { onEvent: refreshList, onState: (line) => line === "refused" && (isFollowingAll = false) });
}

async function lineChanged(line, response) {
  $("line").hidden = line === "open" || line === "refused";
  if (line === "open") outbox.hurry();
  if (line === "lost") announce("");
  if (line === "lost") $("line").textContent = "The connection is lost. Reconnecting…";
  if (line !== "refused") return;
  if (response.status === 401) return signInAnew();
  if (response.status === 404) return tell("This conversation was deleted.");
  // The server no longer has the last seen event: load the conversation again.
  return open(state.session);
}

async function send({ text, images, session: target = null, editing = null }) {
  await opened;
  if (state.session === null || (target !== null && target !== state.session)) return false;
  const { session, conversation } = state;
  const blocks = images.map((url) => ({ type: "image", source: { type: "url", url } }));
  const content = blocks.length ? [...(text ? [{ type: "text", text }] : []), ...blocks] : text;
  if (editing) return openCopy(() => api.edit(session, { message: editing, content }));
  if (conversation.waiting && whileSuspended() === "reject") return tell(ANSWER_FIRST), false;
  announce("");
  list.toEnd();
  // A conversation is made with its first message.
  const made = state.agent === null ? { agent: $("pick").value, policy: $("policy").value } : {};
  if (state.agent === null) useSessionId();
  history.replaceState(null, "", `#/s/${encodeURIComponent(session)}`);
  outbox.add({ key: crypto.randomUUID(), at: Date.now(), session, content, steer: conversation.running, ...made });
  // The sender sees the message at once, however long the conversation takes to render.
  clearTimeout(frame);
  frame = requestAnimationFrame(render);
  return true;
}

async function deliver(item) {
  const { key, session, agent, policy, content, steer } = item;
  if (agent !== undefined) await makeSession(session, agent, policy);
  const turn = await (steer ? api.steer : api.send)(session, { content }, key);
  if (item.isStopped && turn?.id) api.cancel(session, turn.id).catch(fail);
  if (session !== state.session || !turn?.id) return;
  if (!item.isKnown) accepted.push({ ...item, turn: turn.id });
  awaited.add(turn.id);
  if (steer) {
    steering.add(turn.id);
    // Its event may have been shown before.
    show(state.conversation.turns.find((other) => other.id === turn.id));
  }
  giveBackRefused(state.conversation.turns.find((other) => other.id === turn.id));
}

function returnRefused({ session, content }, problem) {
  giveBack(session, { content });
  if (problem) fail(problem);
}

/** Makes the conversation before its first message is sent, and listens: no event of its first turn is missed. */
async function makeSession(id, agent, policy) {
  const made = await api.create({ id, agent: agent || undefined, prompt_policy: policy || undefined }).catch((problem) => {
    if (problem.category !== "chat_session_exists") throw problem;
  });
  if (state.session !== id || state.agent !== null) return;
  // It was made before, and the answer got lost; or another page was first.
  if (!made) return open(id);
  [state.agent, state.policy] = [made.agent, made.prompt_policy];
  showAgent();
  $("pick").hidden = $("policy").hidden = true;
  sessions.current = id;
  inspector.open(id, made.agent);
  refreshList();
  follow(id);
}

/** Cancels the running turns, and messages that were just sent, also those that are not accepted yet. */
async function stop() {
  const { conversation, session } = state;
  for (const item of outbox.of(session)) item.isStopped = true;
  const running = conversation.open.filter((turn) => !conversation.isQueued(turn)).map((turn) => turn.id);
  const ids = new Set([...running, ...accepted.map((item) => item.turn)]);
  await Promise.all([...ids].map((id) => api.cancel(session, id))).catch(fail);
}

async function retry(turn) {
  // A second click must not send a second request.
  if (turn.isRetrying) return;
  turn.isRetrying = true;
  try {
    const made = await api.retry(state.session, turn.id, crypto.randomUUID());
    turn.retriedBy = made?.id ?? true;
    list.toEnd();
  } catch (error) {
    fail(error);
  }
  turn.isRetrying = false;
  show(turn);
}

async function upload(file, session) {
  try {
    return (await api.upload(session, file)).blob;
  } catch (error) {
    return fail(error), null;
  }
}

async function answer(turn, wait, payload) {
  const { conversation, session } = state;
  const which = wait.action ? { wait: wait.number, action: wait.action } : {};
  await api.answer(session, wait.signal, { payload, ...which });
  if (!wait.action) return;
  conversation.noteAnswer(wait, turn, payload);
  // Its event may have been shown before.
  [turn, ...conversation.related(turn)].forEach(show);
}

/** Sends a request that copies the conversation, and opens the copy. */
async function openCopy(request) {
  try {
    const made = await request();
    location.hash = `#/s/${encodeURIComponent(made.session)}`;
    refreshList();
    return true;
  } catch (error) {
    fail(error);
    return false;
  }
}

async function remove(id) {
  if (!confirm("Delete this conversation? It cannot be brought back.")) return;
  const isOpen = id === state.session;
  if (isOpen) state.unfollow();
  try {
    await api.remove(id);
    if (isOpen) location.hash = "#/new";
  } catch (error) {
    fail(error);
    if (isOpen) open(id);
  }
  refreshList();
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
  clearDrafts();
  // A browser may keep a page that was left, and show it again.
  document.body.replaceChildren();
  location.replace("/");
}

function closeDrawer() {
  document.body.classList.remove("drawer");
  $("main").inert = false;
}

const sessionInAddress = () => decodeURIComponent(/^#\/s\/(.+)$/.exec(location.hash)?.[1] ?? "");

function route() {
  const campaign = campaignOf(sessionInAddress());
  // The session of a campaign is shown as its campaign.
  if (campaign !== null) return location.replace(campaignAddress(campaign));
  markShownKind();
  campaigns?.route(state.agents);
  if (showsCampaigns()) return showCampaigns();
  return sessionInAddress() ? open(sessionInAddress()) : open(newSessionId(), true);
}

/** Shows the campaign or the list that the address names. Their modules are loaded once. */
async function showCampaigns() {
  leaveConversation();
  if (campaigns) return;
  try {
    const { Campaigns } = await import("./campaigns.js");
    campaigns ??= new Campaigns(api, { fail, announce, signInAnew });
  } catch (error) {
    return fail(error);
  }
  // The address may have changed while the modules were loaded.
  campaigns.route(state.agents);
}

/** A campaign is shown: no conversation is open behind it. */
function leaveConversation() {
  state.unfollow();
  Object.assign(state, { session: null, agent: null, policy: null, conversation: new Conversation(), unfollow: () => {}, loading: false });
  accepted = [];
  sessions.current = null;
  closeDrawer();
}

const start = () => (opened = startPage());

async function startPage() {
  let agents;
  try {
    [agents] = await Promise.all([api.agents(), sessions.refresh().then(showCount)]);
  } catch (error) {
    return fail(error);
  } finally {
    // An address that changes before that is opened below: once.
    addEventListener("hashchange", route);
  }
  api.signedIn().then((isSignedIn) => ($("leave").hidden = !isSignedIn), () => {});
  state.agents = agents.items;
  fill($("pick"), agents.items.map((agent) => h("option", { value: agent.id }, agent.name)));
  $("pick").hidden = agents.items.length < 2;
  followAll();
  await route();
  outbox.resume();
}

labelLinks();
$("compose").replaceWith(composer.element);
$("list").replaceWith(sessions.element);
$("inspector").append(inspector.element);
$("pick").onchange = () => (($("policy").value = agentInfo()?.promptPolicy ?? "conversation"), show());
$("policy").onchange = () => show();
$("new").onclick = () => {
  const address = showsCampaigns() ? "#/campaigns" : "#/new";
  if (location.hash === address) return route();
  location.hash = address;
};
$("leave").onclick = signOut;
$("menu").onclick = () => {
  document.body.classList.add("drawer");
  // Behind the drawer nothing can be touched or focused.
  $("main").inert = true;
  $("new").focus();
};
$("dim").onclick = closeDrawer;
$("inspect").onclick = () => {
  const on = document.body.classList.toggle("inspecting");
  $("inspect").setAttribute("aria-pressed", String(on));
  if (on) inspector.open(state.session, state.agent ?? $("pick").value);
};
$("bottom").onclick = () => list.toEnd();
list.onFocusLost = turnActions.focusLost;
list.onPinned = (pinned) => ($("bottom").hidden = pinned);
list.onTop = async () => {
  if (state.loading || state.conversation.oldest === 0) return;
  state.loading = true;
  await readOlder(state.conversation.oldest).catch(fail);
  state.loading = false;
};
addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (document.body.classList.contains("drawer")) return closeDrawer(), $("menu").focus();
  if (composer.isEditing) return composer.leaveEdit();
  return stop();
});
start();
// What the first answer needs is made ready while nobody waits for it.
(globalThis.requestIdleCallback ?? setTimeout)(warm);
