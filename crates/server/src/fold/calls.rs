//! The tool calls of messages: each is shown once, before its result.
//!
//! The id of a call is unique in its message only; a result belongs to the last message with an open call of this id.

use singletree_harness::MessageId;
use singletree_llm::ToolCall;

use super::piece::{ProjectionPiece, ToolAnswer};

/// The calls of the latest messages with calls.
#[derive(Debug, Default)]
pub(crate) struct RecentToolCalls(Vec<ShownToolCall>);

#[derive(Debug)]
struct ShownToolCall {
    message: MessageId,
    id: String,
    /// The result, as it was shown: success and content.
    told: Option<(bool, String)>,
    /// Whether the result is recorded.
    over: bool,
}

impl RecentToolCalls {
    /// Adds the calls of a recorded message.
    pub(crate) fn add_recorded_calls(
        &mut self,
        message: &MessageId,
        calls: &[ToolCall],
    ) -> Vec<ProjectionPiece> {
        // Closed calls are not needed once another message makes calls.
        self.0.retain(|it| !it.over || calls.is_empty());
        let told = calls.iter().map(|call| {
            let ToolCall { id, name, arguments, .. } = call.clone();
            self.0.push(ShownToolCall { message: message.clone(), id: id.clone(), told: None, over: false });
            ProjectionPiece::Call {
                message: message.clone(),
                id,
                name,
                arguments: arguments.unwrap_or_default(),
            }
        });
        told.collect()
    }

    /// Takes the result of a tool that has ended. A call that is not known yet is shown later, followed by its
    /// result.
    pub(crate) fn finish_call(&mut self, id: &str, success: bool, content: &str) -> Option<ProjectionPiece> {
        let call = self.0.iter_mut().rev().find(|it| it.id == id && !it.over)?;
        let told = (success, content.to_owned());
        if call.told.as_ref() == Some(&told) {
            return None;
        }
        call.told = Some(told);
        let (id, content, of) = (id.to_owned(), content.to_owned(), Some(call.message.clone()));
        Some(ProjectionPiece::Answer(ToolAnswer {
            call: id,
            success,
            content,
            of,
            message: None,
            agent: None,
        }))
    }

    /// Takes the recorded result of a call. The call may be older than the stream.
    pub(crate) fn record_result(
        &mut self,
        message: &MessageId,
        (id, success, content): (&str, bool, &str),
        agent: Option<&str>,
    ) -> ProjectionPiece {
        let call = self.0.iter_mut().rev().find(|it| it.id == id && !it.over);
        let answer = ToolAnswer {
            call: id.to_owned(),
            success,
            content: content.to_owned(),
            of: call.as_ref().map(|call| call.message.clone()),
            message: Some(message.clone()),
            agent: agent.map(str::to_owned),
        };
        let told = call.is_some_and(|call| {
            call.over = true;
            call.told.as_ref().is_some_and(|(ok, text)| *ok == success && text == content)
        });
        if told { ProjectionPiece::Recorded(answer) } else { ProjectionPiece::Answer(answer) }
    }
}
