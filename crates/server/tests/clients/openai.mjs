// OpenAI's own client for node: `node openai.mjs TOOLS URL`. Prints what it was answered, as one JSON object.
import { createRequire } from 'node:module';

const [tools, url] = process.argv.slice(2);
const { OpenAI } = createRequire(`${tools}/clients.js`)('openai');
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 2 });

const user = (content) => [{ role: 'user', content }];
const look = {
  type: 'function',
  function: { name: 'send', description: '', parameters: { type: 'object', properties: { what: { type: 'string' } } } },
};

/** Returns what an error of the client says. */
async function failure(work) {
  try {
    await work;
    return null;
  } catch (error) {
    const { status, code, type, param } = error;
    return { name: error.constructor.name, status: status ?? null, code: code ?? null, type: type ?? null, param: param ?? null };
  }
}

const told = {};
told.models = (await client.models.list()).data.map((it) => it.id);
told.model = await client.models.retrieve('brief');
told.whole = await client.chat.completions.create({ model: 'scripted', messages: user('look') });

const stream = client.chat.completions.stream({
  model: 'scripted', messages: user('say one two'), stream_options: { include_usage: true },
});
let text = '';
stream.on('content', (delta) => { text += delta; });
told.streamed = await stream.finalChatCompletion();
told.text = text;

// Tools of the client's own: the helper runs them and asks again.
const runner = client.chat.completions.runTools({
  model: 'scripted',
  messages: user('send'),
  tools: [{ ...look, function: { ...look.function, parse: JSON.parse, function: ({ what }) => `sent ${what}` } }],
});
told.ran = await runner.finalContent();
told.ranMessages = runner.messages;

// In a session, by its metadata and by the header.
const session = { metadata: { session_id: 'node' } };
told.first = await client.chat.completions.create({ model: 'scripted', messages: user('say a'), ...session });
told.second = await client.chat.completions
  .stream({ model: 'scripted', messages: user('act') }, { headers: { 'X-Session-ID': 'node' } })
  .finalChatCompletion();
told.waiting = await client.chat.completions.create({ model: 'scripted', messages: user('send'), ...session });
told.suspended = await failure(client.chat.completions.create({ model: 'scripted', messages: user('say b'), ...session }));

// A request that is sent again by the client itself after its connection broke: one turn.
let tries = 0;
const flaky = new OpenAI({
  baseURL: `${url}/v1`, apiKey: 'none',
  fetch: async (...request) => {
    const response = await fetch(...request);
    if (++tries === 1) {
      await response.text();
      throw new TypeError('the connection broke');
    }
    return response;
  },
});
told.once = await flaky.chat.completions.create(
  { model: 'scripted', messages: user('say once'), metadata: { session_id: 'once' } },
  { idempotencyKey: 'k', headers: { 'Idempotency-Key': 'k' } },
);
told.tries = tries;

told.errors = {
  retryable: await failure(client.chat.completions.create({ model: 'scripted', messages: user('fail retryable') })),
  correctable: await failure(client.chat.completions.create({ model: 'scripted', messages: user('fail correctable') })),
  halfway: await failure(client.chat.completions.stream({ model: 'scripted', messages: user('fail halfway') }).finalContent()),
  model: await failure(client.chat.completions.create({ model: 'gpt-9', messages: user('a') })),
  n: await failure(client.chat.completions.create({ model: 'scripted', messages: user('a'), n: 2 })),
};
console.log(JSON.stringify(told));
