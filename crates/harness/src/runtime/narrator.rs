//! Through which an agent says why it proposes something (agent-chat-output §5.2).

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use singletree_durable::SessionKey;
use singletree_engine::Clock;
use singletree_narration::{
    NarrationMessage, NarrationOwner, NarrationPurpose, NarrationSink, NarrationSpeaker, narrated_rationale,
};

use crate::agents::reply::truncate_text;
use crate::runtime::narrate::{NarrationPiece, QUOTED_BYTES};

/// Lets a node say, as the agent, why it proposes an action. Nodes get it from their
/// [`TurnContext`](crate::TurnContext).
///
/// The controller narrates events, after they are recorded. Nodes cannot read narration, and a piece of narration is
/// not a message:
///
/// ```
/// use singletree_llm::ChatMessage;
/// use singletree_narration::NarrationMessage;
///
/// fn told(said: NarrationMessage) -> ChatMessage {
///     ChatMessage::assistant(said.content)
/// }
/// ```
///
/// ```compile_fail,E0277
/// use singletree_llm::ChatMessage;
/// use singletree_narration::NarrationMessage;
///
/// fn told(said: NarrationMessage) -> ChatMessage {
///     said.into()
/// }
/// ```
///
/// ```compile_fail,E0277
/// use singletree_llm::ChatMessage;
/// use singletree_narration::NarrationMessage;
///
/// fn told(message: ChatMessage) -> NarrationMessage {
///     message.into()
/// }
/// ```
#[derive(Clone)]
pub struct Narrator {
    sink: Arc<dyn NarrationSink>,
    clock: Arc<dyn Clock>,
    key: SessionKey,
}

impl Narrator {
    pub(crate) fn new(sink: Arc<dyn NarrationSink>, clock: Arc<dyn Clock>, key: SessionKey) -> Self {
        Self { sink, clock, key }
    }

    /// Says why something is proposed, before it is carried out. Nothing is said of an empty text; of a long one its
    /// beginning; and one that claims a memory of the chat is replaced (agent-chat-output §11).
    pub fn narrate_rationale(&self, text: &str) {
        let content = truncate_text(narrated_rationale(text.trim()), QUOTED_BYTES);
        if !content.is_empty() {
            self.narrate_piece(NarrationPiece {
                role: NarrationSpeaker::Agent,
                kind: NarrationPurpose::Explanation,
                content,
            });
        }
    }

    pub(crate) fn narrate_piece(&self, said: NarrationPiece) {
        let NarrationPiece { role, kind, content } = said;
        let timestamp = self.clock.now().to_system_time();
        emit_narration(self.sink.as_ref(), &self.key, NarrationMessage { timestamp, role, kind, content });
    }
}

/// Hands narration to the sink. The sink's result is ignored, even a panic (INV-9).
pub(crate) fn emit_narration(sink: &dyn NarrationSink, key: &SessionKey, narration: NarrationMessage) {
    drop(catch_unwind(AssertUnwindSafe(|| sink.emit_narration(narration_owner(key), narration))));
}

/// Has everything dropped that was said about a session.
pub(crate) fn forget_narration(sink: &dyn NarrationSink, key: &SessionKey) {
    drop(catch_unwind(AssertUnwindSafe(|| sink.forget_session(narration_owner(key)))));
}

/// Names whose narration it is.
fn narration_owner(key: &SessionKey) -> NarrationOwner<'_> {
    NarrationOwner { tenant: key.tenant.as_str(), session: key.session.as_str() }
}

impl fmt::Debug for Narrator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Narrator({:?})", self.key)
    }
}
