//! The calls of messages, each told once, before what it gave.
//!
//! Ids of calls are unique in their message only; a result belongs to the last message that has such a call open.

use singletree_harness::MessageId;
use singletree_llm::ToolCall;

use super::piece::{Piece, ToolAnswer};

/// The calls of the last messages that made some.
#[derive(Debug, Default)]
pub(crate) struct Calls(Vec<Call>);

#[derive(Debug)]
struct Call {
    message: MessageId,
    id: String,
    /// What it gave, as it was told.
    told: Option<(bool, String)>,
    /// Whether what it gave is recorded.
    over: bool,
}

impl Calls {
    /// A message with these calls is recorded.
    pub(crate) fn made(&mut self, message: &MessageId, calls: &[ToolCall]) -> Vec<Piece> {
        // What is over is of no further use once another message makes calls.
        self.0.retain(|it| !it.over || calls.is_empty());
        let told = calls.iter().map(|call| {
            let ToolCall { id, name, arguments, .. } = call.clone();
            self.0.push(Call { message: message.clone(), id: id.clone(), told: None, over: false });
            Piece::Call { message: message.clone(), id, name, arguments: arguments.unwrap_or_default() }
        });
        told.collect()
    }

    /// A tool has ended. A call that was not told yet will be, with what it gave.
    pub(crate) fn finished(&mut self, id: &str, success: bool, content: &str) -> Option<Piece> {
        let call = self.0.iter_mut().rev().find(|it| it.id == id && !it.over)?;
        let told = (success, content.to_owned());
        if call.told.as_ref() == Some(&told) {
            return None;
        }
        call.told = Some(told);
        let (id, content, of) = (id.to_owned(), content.to_owned(), Some(call.message.clone()));
        Some(Piece::Answer(ToolAnswer { call: id, success, content, of, message: None, agent: None }))
    }

    /// What a call gave is recorded. The call may be one of before the stream began.
    pub(crate) fn recorded(
        &mut self,
        message: &MessageId,
        (id, success, content): (&str, bool, &str),
        agent: Option<&str>,
    ) -> Piece {
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
        if told { Piece::Recorded(answer) } else { Piece::Answer(answer) }
    }
}
