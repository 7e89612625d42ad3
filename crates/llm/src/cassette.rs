//! Recorded calls: a provider that records requests and answers, and a provider that answers from such a record.
//!
//! A cassette is text, one JSON object a line. The first line says which model was asked; each other one is a call:
//!
//! ```json
//! {"cassette":1,"model":"gpt-x","streams":true}
//! {"digest":"9f…","request":{"messages":[…]},"deltas":[…],"ended":{"response":{…}}}
//! ```
//!
//! `digest` names the request: the first 16 hexadecimal digits of the SHA-256 of its canonical JSON. A line that
//! somebody wrote by hand may leave it out; one that does not fit its request is refused, so that nobody edits a
//! request and wonders. `deltas` is there when the call was streamed. `ended` is the `response`, nothing for a stream
//! (its deltas say it), or the `error`.
//!
//! Requests, answers and errors hold no keys: those belong to the providers' transport, which is below. They do hold
//! the conversation.

mod entry;
mod recorder;
mod replayer;
mod request;

pub use recorder::CassetteRecorder;
pub use replayer::CassetteReplayer;

#[cfg(test)]
mod tests;
