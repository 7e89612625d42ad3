//! Text for the human that nothing reads back.
//!
//! *Narration* says what goes on: a status, an explanation, a question, progress, an error. It is a projection for people:
//! the machine has its own channel (commands, transcript, tool calls, signals, outcomes). Deleting or replacing any
//! narration at any moment changes nothing that is decided (agent-chat-output §2, §12; INV-9).
//!
//! That is why this crate has a type and a sink, and no reader: what can emit narration cannot see it again.

mod locale;
mod narration;
mod phrase;
mod sink;

pub use locale::{Locale, UnknownLocale};
pub use narration::{Narration, NarrationKind, Speaker};
pub use phrase::claims_memory;
pub use sink::{NarrationSink, NoNarration, Whose};
