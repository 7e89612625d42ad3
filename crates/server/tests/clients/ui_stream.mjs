// A page made of Vercel's ai: `node ui_stream.mjs TOOLS PACKAGE URL`. Prints what it came to hold, as one JSON object.
//
// TOOLS is where node_modules is, PACKAGE the version of the library there, URL the server. The chat is the library's own, over a state without a framework; so is the
// transport. A line `pace N` lets the model speak for so many pauses.
import { State, library } from './ui_library.mjs';

const [tools, name, url] = process.argv.slice(2);
const { AbstractChat, DefaultChatTransport, readUIMessageStream, validateUIMessages, uiMessageChunkSchema } =
  await library(tools, name);

const api = `${url}/v1/ui`;
const told = {};
const until = async (reached) => {
  while (!reached()) await new Promise((again) => setTimeout(again, 2));
};

/** As the documentation says, to send only what is needed. */
const short = {
  prepareSendMessagesRequest: ({ id, messages, trigger, messageId, body }) => ({
    body: { sessionId: id, message: messages.at(-1), trigger, messageId, ...body },
  }),
};

let ids = 0;
class Page extends AbstractChat {
  constructor({ id, messages = [], options = {} }) {
    const seen = { finished: [], errors: [], calls: 0 };
    super({
      id,
      generateId: () => `client-${++ids}`,
      transport: new DefaultChatTransport({ api, ...options }),
      state: new State(messages),
      onFinish: ({ isError, isAbort, isDisconnect, finishReason }) =>
        void seen.finished.push({ isError, isAbort, isDisconnect, finishReason }),
      onError: (error) => void seen.errors.push(error.message),
      onToolCall: () => void (seen.calls += 1),
    });
    this.seen = seen;
  }
  view() {
    return JSON.parse(JSON.stringify(this.messages));
  }
}

const kept = async (chat) => (await (await fetch(`${api}/${chat}/messages`)).json()).messages;

/** Tells what a page holds, and what the server says that there is. */
async function hold(name, page) {
  told[name] = { view: page.view(), kept: await kept(page.id), status: page.status, ...page.seen };
  // What is kept is what the library takes for messages, to begin with.
  if (told[name].kept.length > 0) await validateUIMessages({ messages: told[name].kept });
}

// A turn with tools, for both forms of posting.
for (const [id, options] of Object.entries({ whole: {}, short })) {
  const page = new Page({ id, options });
  await page.sendMessage({ text: 'say hello' });
  await page.sendMessage({ text: 'both' });
  await page.sendMessage({ text: 'think' });
  await hold(id, page);
}

// A page that was left and is opened again.
const reopened = new Page({ id: 'whole', messages: await kept('whole') });
await reopened.resumeStream();
await reopened.sendMessage({ text: 'say more' });
await hold('whole', reopened);

// Approvals: one given, one refused; the answer is posted as the library posts what goes on with the last message.
const asking = new Page({ id: 'approval' });
await asking.sendMessage({ text: 'sends' });
told.asked = asking.view();
for (const approved of [true, false]) {
  const waiting = asking.lastMessage.parts.findLast((it) => it.type === 'data-suspended' && it.data.status === 'pending').data;
  const answer = { signal: waiting.signal, wait: waiting.number, action: waiting.action, payload: { approved } };
  await asking.sendMessage(undefined, { body: { answer } });
}
await hold('approval', asking);

// An approval that is answered elsewhere: the page comes back for what came of it.
const elsewhere = new Page({
  id: 'elsewhere',
  options: { prepareReconnectToStreamRequest: ({ id }) => ({ api: `${api}/${id}/stream?last=true` }) },
});
await elsewhere.sendMessage({ text: 'send' });
const wait = elsewhere.lastMessage.parts.at(-1).data;
await fetch(`${url}/v1/sessions/elsewhere/signals/${encodeURIComponent(wait.signal)}`, {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ payload: { approved: true }, wait: wait.number, action: wait.action }),
});
await elsewhere.resumeStream();
await hold('elsewhere', elsewhere);

// Errors, and a request that is refused; then the same again, otherwise.
const failing = new Page({ id: 'errors' });
await failing.sendMessage({ text: 'fail retryable' });
told.failed = { status: failing.status, view: failing.view(), ...structuredClone(failing.seen) };
failing.messages = await kept('errors').catch(() => []);
await failing.sendMessage({ text: 'fail halfway' });
told.halfway = failing.view();
await failing.sendMessage({ text: 'say it', messageId: failing.messages.findLast((it) => it.role === 'user').id });
await hold('errors', failing);
await failing.sendMessage({ files: [{ type: 'file', mediaType: 'text/plain', url: 'https://x.example/y' }] });
told.refused = { status: failing.status, errors: failing.seen.errors };

// Saying it otherwise, and asking for another answer: the page keeps its chat's id.
const branching = new Page({ id: 'branch' });
await branching.sendMessage({ text: 'say one' });
await branching.sendMessage({ text: 'say two' });
const before = branching.lastMessage.id;
await branching.regenerate();
told.regenerated = branching.lastMessage.id !== before;
await branching.sendMessage({ text: 'say three' });
await hold('branch', branching);
await branching.sendMessage({ text: 'say else', messageId: branching.messages[0].id });
await branching.sendMessage({ text: 'look' });
await hold('edited', branching);

// A connection that breaks off in the middle; the page comes back while the turn runs.
let cut;
const breaking = {
  fetch: async (input, init) => {
    const response = await fetch(input, init);
    if (init.method === 'GET' || response.status !== 200) return response;
    const reader = response.body.getReader();
    let pieces = 0;
    const body = new ReadableStream({
      async pull(controller) {
        const { value, done } = await reader.read();
        if (done) return controller.close();
        pieces += new TextDecoder().decode(value).split('text-delta').length - 1;
        if (pieces >= 2) {
          cut = true;
          await reader.cancel();
          return controller.error(new TypeError('network error'));
        }
        controller.enqueue(value);
      },
    });
    return new Response(body, { status: 200, headers: response.headers });
  },
};
const broken = new Page({ id: 'reconnect', options: breaking });
console.log('pace 2');
await broken.sendMessage({ text: 'slow one two three four' });
told.cut = { cut, status: broken.status, view: broken.view(), finished: [...broken.seen.finished] };
const resuming = broken.resumeStream();
await until(() => broken.lastMessage?.role === 'assistant' && broken.status === 'streaming');
console.log('pace 100');
await resuming;
await hold('reconnect', broken);
told.nothing = (await fetch(`${api}/reconnect/stream`)).status;

// The reader of streams alone, and every part against the library's own schema.
const transport = new DefaultChatTransport({ api });
const message = { id: 'client-raw', role: 'user', parts: [{ type: 'text', text: 'both' }] };
const stream = await transport.sendMessages({ chatId: 'raw', messages: [message], trigger: 'submit-message' });
const [one, two] = stream.tee();
const parts = [];
for await (const part of two) parts.push(part);
let last;
for await (const snapshot of readUIMessageStream({ stream: one, terminateOnError: true })) last = snapshot;
const schema = uiMessageChunkSchema();
told.raw = {
  view: JSON.parse(JSON.stringify(last)),
  kept: (await kept('raw'))[1],
  types: [...new Set(parts.map((it) => it.type))],
  valid: (await Promise.all(parts.map((it) => schema.validate(it)))).every((it) => it.success),
};

console.log(JSON.stringify(told));
process.exit(0);
