//! Records: the events of a turn in the form in which they are stored with the turn, and back again.
//!
//! A record is a short form of an event. It holds names, numbers, times and categories, and no text that a person, a model
//! or a tool wrote, so that storing it copies no content (INV-4) and erasing content needs no look at it. The records that one
//! commit stores are a *piece*, which is JSON. [`TurnRecorder`] makes the pieces, [`StoredTurn`] reads them back: rendered
//! without payloads, the events that it returns give the spans that the original events give, except for the messages of
//! errors and the metadata of waits, which are not stored.
//!
//! Of a model call that is made with a stored conversation, the record says which of its messages. Whoever wants the texts,
//! too, reads these messages when it renders ([`ConversationTexts`]): a message that was deleted since is in no span.

mod convert;
mod decode;
mod entry;
mod place;
mod recorder;
mod texts;

pub use decode::{StoredTurn, StoredTurnEnding, TurnPiece};
pub use recorder::{RecordedPiece, RecorderLimits, TurnRecorder};
pub use texts::{ConversationTexts, ReferredMessages};
