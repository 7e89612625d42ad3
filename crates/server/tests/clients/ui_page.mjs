// A page whose user reloads it, presses Stop, approves, and whose server stops: `node ui_page.mjs TOOLS PACKAGE URL`. Prints what
// it came to hold, as one JSON object.
//
// TOOLS is where node_modules is, PACKAGE the version of the library there, URL the server. A line `pace N` lets the model speak
// for so many pauses; a line `stop` stops the server.
import { State, library } from './ui_library.mjs';

const [tools, name, url] = process.argv.slice(2);
const { AbstractChat, DefaultChatTransport, validateUIMessages } = await library(tools, name);

const api = `${url}/v1/ui`;
const major = name === 'ai' ? '5' : name.slice('ai-'.length);
const headers = { 'x-ai-sdk-version': major };
const told = { major };
const until = async (reached) => {
  while (!(await reached())) await new Promise((again) => setTimeout(again, 2));
};

/** As the guide has it: Stop cancels the turn, not only the connection. */
const stopping = (id) => (input, init) => {
  init?.signal?.addEventListener('abort', () => fetch(`${api}/${id}/stream`, { method: 'DELETE', headers }));
  return fetch(input, init);
};

/** More words than the model may say. */
const long = `slow ${Array(400).fill('word').join(' ')}`;

let ids = 0;
class Page extends AbstractChat {
  constructor({ id, messages = [], options = {}, ...more }) {
    super({
      id,
      generateId: () => `client-${++ids}`,
      transport: new DefaultChatTransport({ api, headers, ...options }),
      state: new State(messages),
      ...more,
    });
  }
  view() {
    return JSON.parse(JSON.stringify(this.messages));
  }
  texts() {
    return this.messages.flatMap((it) => it.parts.filter((part) => part.type === 'text').map((part) => part.text));
  }
}

const kept = async (chat) => {
  const { messages } = await (await fetch(`${api}/${chat}/messages`, { headers })).json();
  await validateUIMessages({ messages });
  return messages;
};
const runs = async (chat) =>
  (await (await fetch(`${url}/v1/sessions/${chat}/turns`)).json()).items?.some((turn) => turn.status === 'accepted');
const speaks = (page) => until(() => page.texts().some((text) => text.startsWith('You')));

// A page that is loaded again in the middle of an answer has the question, and comes to have the answer.
const left = new Page({ id: 'reload' });
console.log('pace 2');
const leaving = left.sendMessage({ text: 'slow one two three' });
await speaks(left);
await left.stop();
await leaving;
const again = new Page({ id: 'reload', messages: await kept('reload') });
told.reloaded = again.view();
const resuming = again.resumeStream();
await speaks(again);
console.log('pace 100');
await resuming;
told.reload = { texts: again.texts(), roles: again.messages.map((it) => it.role), status: again.status };

// Stop really stops.
const stopped = new Page({ id: 'stop', options: { fetch: stopping('stop') } });
const running = stopped.sendMessage({ text: long });
await until(() => runs('stop'));
await stopped.stop();
await running;
await until(async () => !(await runs('stop')));
told.stopped = { status: stopped.status, outcome: (await (await fetch(`${url}/v1/sessions/stop/turns`)).json()).items[0] };

// A turn that failed is seen after a reload, too.
const failing = new Page({ id: 'failed' });
await failing.sendMessage({ text: 'fail halfway' });
told.failed = { status: failing.status, kept: await kept('failed') };
// Asking for another answer retries the turn: in the page that saw it fail, and in one that is loaded again.
const turns = async (chat) => (await (await fetch(`${url}/v1/sessions/${chat}/turns`)).json()).items;
await failing.regenerate();
const mended = new Page({ id: 'failed', messages: await kept('failed') });
await mended.regenerate({ messageId: mended.messages.at(-1).id });
told.retried = { status: mended.status, kept: await kept('failed'), turns: await turns('failed') };

// Approvals by the library's own call, one after the other; the answers are sent by themselves.
if (major !== '5') {
  const answered = ({ messages }) => {
    const parts = messages.at(-1)?.parts ?? [];
    return parts.some((it) => it.state === 'approval-responded') && !parts.some((it) => it.state === 'approval-requested');
  };
  const asking = new Page({ id: 'approval', sendAutomaticallyWhen: answered });
  await asking.sendMessage({ text: 'sends' });
  const asked = () => asking.lastMessage.parts.find((it) => it.state === 'approval-requested');
  told.asked = asked();
  await asking.addToolApprovalResponse({ id: asked().approval.id, approved: true });
  await until(() => asked() && asked().toolCallId !== told.asked.toolCallId);
  await until(() => asking.status === 'ready');
  await asking.addToolApprovalResponse({ id: asked().approval.id, approved: false, reason: 'not this one' });
  await until(() => asking.status === 'ready' && asking.texts().length > 1);
  told.approval = { view: asking.view(), kept: await kept('approval'), error: asking.error?.message };
}

// The stop of the server in the middle of an answer is an error.
const cut = new Page({ id: 'cut' });
const cutting = cut.sendMessage({ text: long });
await until(() => runs('cut'));
console.log('stop');
await cutting;
told.cut = { status: cut.status, error: cut.error?.message, texts: cut.texts() };

console.log(JSON.stringify(told));
process.exit(0);
