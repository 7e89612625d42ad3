//! A strict shell (spec: OpenHarness §4, §5.3, §9.1, §10, §11).

mod conversation;
mod perform;
mod plan;
mod profile;
mod question;
mod speaker;
mod text;

pub use conversation::{ConversationRound, ShellConversation, ShellConversationParts};
pub use perform::{ActionExecutor, Confirmation, NoActionExecutor, Performance, PersonInterface};
pub use plan::{DirectiveNote, ResponsePlan, ResponseStep};
pub use profile::ShellProfile;
pub use question::EngineQuestion;
pub use speaker::ShellSession;
pub use text::to_plain_text;

#[cfg(test)]
mod tests;
