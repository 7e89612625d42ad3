//! Text for the human that nothing reads back.
//!
//! *Narration* describes the progress of work: a status, an explanation, a question, progress, an error. It is a
//! projection for people: the machine has its own channel (commands, transcript, tool calls, signals, outcomes).
//! Deleting or replacing any narration at any moment changes no decision (agent-chat-output §2, §12; INV-9).
//!
//! For this reason the crate has a type and a sink, and no reader: code that emits narration cannot read it back.

mod locale;
mod narration;
mod phrase;
mod sink;

pub use locale::{Locale, UnknownLocale};
pub use narration::{NarrationMessage, NarrationPurpose, NarrationSpeaker};
pub use phrase::find_memory_claim;
pub use sink::{NarrationOwner, NarrationSink, NoNarration};
