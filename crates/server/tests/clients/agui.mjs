// A front end made of the protocol's own client: `node agui.mjs TOOLS PACKAGE URL`. Prints what it came to hold, as one JSON
// object.
//
// TOOLS is where node_modules is, PACKAGE the version of the client there, URL the server. What the client's own strictness warns of is printed, too. A line `pace N`
// before that lets the model speak for so many pauses.
import { createRequire } from 'node:module';

const [tools, name, url] = process.argv.slice(2);
const { HttpAgent, buildResumeArray } = createRequire(`${tools}/clients.js`)(name);

const warnings = [];
for (const level of ['warn', 'error']) console[level] = (...said) => warnings.push(said.map(String).join(' '));

let ids = 0;
const says = (agent, content) => agent.addMessage({ id: `user-${++ids}`, role: 'user', content });
const open = (threadId) => new HttpAgent({ url: `${url}/v1/agui`, threadId });

/** Runs, and says how it ended. */
async function run(agent, parameters = {}, subscriber = {}) {
  const ended = { types: [] };
  await agent.runAgent(parameters, {
    onEvent: ({ event }) => void ended.types.push(event.type),
    onRunFinishedEvent: ({ outcome }) => void (ended.outcome = outcome),
    onRunErrorEvent: ({ event }) => void (ended.error = event.code),
    ...subscriber,
  });
  return ended;
}

const told = {};

// A turn with tools.
const talk = open('tools');
says(talk, 'say hello');
told.said = await run(talk);
says(talk, 'both');
told.tools = await run(talk);
told.toolsMessages = talk.messages;

// Approvals: one is given, one is refused, one is given up.
const asking = open('approvals');
says(asking, 'sends');
told.asked = await run(asking);
told.interrupts = asking.pendingInterrupts;
const answer = async (response) => {
  const responses = Object.fromEntries(asking.pendingInterrupts.map((it) => [it.id, response]));
  return run(asking, { resume: buildResumeArray(asking.pendingInterrupts, responses) });
};
told.approved = await answer({ status: 'resolved', payload: { approved: true } });
told.refused = await answer({ status: 'resolved', payload: { approved: false, reason: 'no' } });
says(asking, 'send');
await run(asking);
says(asking, 'say on');
told.givenUp = await answer({ status: 'cancelled' });
told.approvalsMessages = asking.messages;
told.leftPending = asking.pendingInterrupts;

// An error: what the user said stays, to be said again.
const failing = open('errors');
says(failing, 'say a');
await run(failing);
says(failing, 'fail halfway');
told.failed = await run(failing);
told.failedMessages = structuredClone(failing.messages);
failing.setMessages(failing.messages.slice(0, -1));
says(failing, 'say b');
told.recovered = await run(failing);
told.errorsMessages = failing.messages;

// A connection that breaks off in the middle of an answer; the same run again.
const broken = open('reconnect');
says(broken, 'slow one two three four');
let pieces = 0;
console.log('pace 3');
await run(broken, { runId: 'run-1' }, {
  onTextMessageContentEvent: () => void (++pieces === 2 && broken.abortRun()),
}).catch((error) => warnings.push(String(error)));
told.halfway = structuredClone(broken.messages);
console.log('pace 100');
told.again = await run(broken, { runId: 'run-1' });
told.reconnectMessages = broken.messages;

// A turn that somebody else cancels in the middle of its answer.
const cancelled = open('cancelled');
says(cancelled, `slow ${Array(400).fill('word').join(' ')}`);
let cancelling;
told.cancelled = await run(cancelled, {}, {
  onTextMessageContentEvent: () =>
    void (cancelling ??= fetch(`${url}/v1/agui/threads/cancelled/run`, { method: 'DELETE' })),
});

// A page that is opened anew.
const anew = open('reconnect');
told.anew = await run(anew);
told.anewMessages = anew.messages;

console.log(JSON.stringify({ ...told, warnings }));
