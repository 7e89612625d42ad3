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
mod sentence;
mod sink;
mod verbosity;
mod visible_text;

pub use locale::{Locale, UnknownLocale};
pub use narration::{NarrationMessage, NarrationPurpose, NarrationSpeaker};
pub use phrase::{find_memory_claim, narrated_rationale};
pub use sentence::fill_sentence;
pub use sink::{NarrationOwner, NarrationSink, NoNarration};
pub use verbosity::NarrationVerbosity;
pub use visible_text::{is_invisible_char, visible_json, visible_text, visible_value};
