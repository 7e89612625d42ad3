//! A strict shell (spec: OpenHarness §4, §5.3, §9.1, §10, §11).

mod conversation;
mod perform;
mod plan;
mod profile;
mod question;
mod speaker;
mod text;

pub use conversation::{Conversation, ConversationParts, Ended};
pub use perform::{Confirmation, Hands, NoHands, Performance, Person};
pub use plan::{Note, Plan, Step};
pub use profile::ShellProfile;
pub use question::Question;
pub use speaker::Shell;
pub use text::plain;

#[cfg(test)]
mod tests;
