// A page made of Steerable's own hooks: `node steerable.mjs TOOLS URL`. Prints what it came to show, as one JSON object.
//
// TOOLS is where node_modules is, URL the server. The transport is the application's to write; this one is what the framework's
// documentation shows, with its own parser. A line `pace N` lets the model speak for so many pauses.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [tools, url] = process.argv.slice(2);
const require = createRequire(`${tools}/clients.js`);
const load = (name) => import(pathToFileURL(require.resolve(name)));

const { Window } = await load('happy-dom');
const window = new Window();
for (const name of ['window', 'document', 'HTMLElement', 'Node', 'MutationObserver']) {
  globalThis[name] = name === 'window' ? window : window[name];
}
Object.defineProperty(globalThis, 'navigator', { value: window.navigator, configurable: true });

const { renderHook } = await load('@testing-library/react');
globalThis.IS_REACT_ACT_ENVIRONMENT = false;

/** Waits until the page has come so far. */
const until = async (reached) => {
  while (!reached()) await new Promise((again) => setTimeout(again, 2));
};
const root = `${tools}/node_modules/@steerable/agent-ui/dist`;
const { useChatStream, useAgentSession } = await import(pathToFileURL(`${root}/index.js`));
const { SSEParser, parseSSEData, bridgeLegacySSE } = await import(pathToFileURL(`${root}/state/index.js`));

/** Reads a body through the framework's parser. */
async function read(body, onEvent, stop) {
  let complete = false;
  const parser = new SSEParser({
    onFrame: ({ data, event }) => {
      if (data === undefined) return;
      const bridged = bridgeLegacySSE(parseSSEData(data), event);
      if (bridged) onEvent(bridged);
    },
    onError: (error) => { throw error; },
    onComplete: () => (complete = true),
  });
  const decoder = new TextDecoder();
  for await (const chunk of body) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    if (stop?.()) break;
  }
  parser.end();
  return complete;
}

/** The reader of the framework's documentation: a chunk that does not begin with `data: ` is dropped, and what is left over. */
async function readAsDocumented(body, onEvent) {
  const decoder = new TextDecoder();
  let buffer = '';
  for await (const part of body) {
    buffer += decoder.decode(part, { stream: true });
    for (const chunk of buffer.split('\n\n')) {
      if (!chunk.startsWith('data: ')) continue;
      const data = chunk.slice(6);
      if (data !== '[DONE]') onEvent(JSON.parse(data));
    }
    buffer = '';
  }
}

const post = (path, body) =>
  fetch(`${url}${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });

/** A chat as a page has it: the hook, and all events that it hands on. */
function open(chat, { initialMessages = [], reader = read, stop } = {}) {
  const others = [];
  const results = [];
  const complete = [];
  const transport = {
    stream: async (input, onEvent) => {
      const response = await post(`/v1/chats/${chat}/send`, input);
      if (!response.ok) throw new Error((await response.json()).error.message);
      complete.push(await reader(response.body, onEvent, stop));
    },
    steer: async (content) => (await (await post(`/v1/chats/${chat}/steer`, { content })).json()).steered,
  };
  const onUnknownEvent = (event) => others.push(event);
  const toolResultToMessage = (result) => void results.push(result) ?? null;
  const options = { transport, onUnknownEvent, initialMessages, toolResultToMessage };
  const renders = { count: 0 };
  const { result } = renderHook(() => {
    renders.count += 1;
    return useChatStream(options);
  });
  return { hook: result, renders, others, results, complete, messages: () => result.current.messages };
}


/** Does something with the page, and waits until it shows what came of it. */
async function on(page, what) {
  const renders = page.renders.count;
  await what(page.hook.current);
  await until(() => page.renders.count > renders && !page.hook.current.isStreaming);
}
const say = (page, content) => on(page, (hook) => hook.sendUserMessage({ content }));
const kept = async (chat) => (await (await fetch(`${url}/v1/chats/${chat}/messages`)).json()).messages;
const shown = (page) => page.messages().map(({ role, content, toolCalls = [] }) => ({ role, content, toolCalls }));
const told = {};

// A turn with tools; the page's bubble has the whole turn.
const talk = open('tools');
await say(talk, 'say hello');
await say(talk, 'both');
told.tools = { shown: shown(talk), results: talk.results, others: talk.others, complete: talk.complete };

// What the page begins with after a reload is what is kept, and it goes on from there.
const initialMessages = await kept('tools');
const again = open('tools', { initialMessages });
told.reloaded = { same: JSON.stringify(again.messages()) === JSON.stringify(initialMessages) };
await say(again, 'say more');
told.reloaded.shown = shown(again).slice(-2);

// The reader as documented, on a stream with tools.
const plain = open('plain', { reader: readAsDocumented });
await say(plain, 'both');
told.plain = { shown: shown(plain), complete: plain.complete };

// An approval: the protocol has none; the page is told, answers by the API, and hears the rest where it listens.
const asking = open('approval');
await say(asking, 'send');
const wait = asking.others.find((it) => it.event === 'suspended').payload;
told.approval = { asked: shown(asking), wait, done: asking.complete };
const listening = await fetch(`${url}/v1/chats/approval/events`);
const answer = { payload: { approved: true }, wait: wait.number, action: wait.action };
await post(`/v1/sessions/approval/signals/${encodeURIComponent(wait.signal)}`, answer);
const heard = [];
let ended = false;
await read(listening.body, (event) => {
  heard.push(event);
  ended ||= event.type === 'done';
}, () => ended);
told.approval.heard = heard.filter((it) => it.type !== 'keepalive');

// Errors of each kind, and a message that is refused.
const failing = open('errors');
await say(failing, 'fail retryable');
await say(failing, 'fail halfway');
await say(failing, 'say on');
await say(failing, '');
told.errors = { shown: shown(failing) };

// A connection that breaks off in the middle; then the turn again, as the hook resumes it.
let pieces = 0;
const broken = open('reconnect', { stop: () => ++pieces === 3 });
console.log('pace 3');
await say(broken, 'slow one two three four');
told.reconnect = { halfway: shown(broken) };
console.log('pace 4');
const back = open('reconnect', { initialMessages: broken.messages().slice(0, 1) });
await on(back, (hook) => hook.resumeTurn());
told.reconnect.shown = shown(back);

// Steering, while none runs and while one does.
const steered = open('steer');
const outcomes = [await steered.hook.current.steerOrFollowUpUserMessage('say first')];
await until(() => steered.complete.length === 1 && !steered.hook.current.isStreaming);
const accepted = () => steered.others.filter((it) => it.event === 'accepted').length;
const slow = steered.hook.current.sendUserMessage({ content: 'slow one' });
await until(() => accepted() === 2);
outcomes.push(await steered.hook.current.steerOrFollowUpUserMessage('say second'));
console.log('pace 100');
await slow;
told.steer = { outcomes };

// Agent sessions, by the framework's hook over our routes.
const json = async (response) => (await response).json();
const sessions = {
  create: (input) => json(post('/v1/agent-sessions', input)),
  resume: (id) => json(fetch(`${url}/v1/agent-sessions/${id}`)),
  list: (filter) => json(fetch(`${url}/v1/agent-sessions?${new URLSearchParams(filter)}`)),
};
const { result } = renderHook(() => useAgentSession({ transport: sessions }));
await result.current.create({ chatId: 'made', userId: 'ann' });
await result.current.resume('tools');
await until(() => result.current.current?.sessionId === 'tools' && !result.current.isLoading);
told.sessions = { current: result.current.current, made: result.current.sessions, error: result.current.error };

console.log(JSON.stringify(told));
process.exit(0);
