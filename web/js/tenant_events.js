// The events of all conversations, for the list and the count of approvals.
//
// A browser has few connections to a server, and each tab has one for its own conversation: one tab holds this stream and tells
// the others. Where the browser cannot do that, each tab has a stream of its own.

const NAME = "singletree.events";

const channel = globalThis.BroadcastChannel ? new BroadcastChannel(NAME) : null;

/** Calls `onEvent(type, session)` for each event, whichever tab receives it, and `onState` as `follow` does. */
export function followAllSessions(api, { onEvent, onState }) {
  if (channel) channel.onmessage = ({ data }) => onEvent(data.type, data.session);
  const take = ({ data }) => {
    const { type, session } = JSON.parse(data);
    channel?.postMessage({ type, session });
    onEvent(type, session);
  };
  const begin = () => new Promise((resolve) => api.followAll({ onEvent: take, onState: (state, response) => (onState(state, response), state === "refused" && resolve()) }));
  if (!channel || !navigator.locks) return void begin();
  navigator.locks.request(NAME, begin).catch(() => begin());
}
