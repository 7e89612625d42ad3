//! A scripted model that answers commands.

use std::sync::Arc;

use futures_util::StreamExt;
use serde::Deserialize;
use serde_json::Value;
use singletree_llm::{
    BoxFuture, BoxStream, ChatMessage, InstantTimer, Provider, Request, Response, ResponseDelta, Result,
    Role, ScriptedProvider, ToolCall, canonical_json,
};

use super::action::CommandAction;
use super::prompt::{ARTIFACTS_HEADING, COMMAND_HEADING, STATE_HEADING};

/// A [`ScriptedProvider`] whose script answers in conversations and to commands with the same rules.
///
/// The request of a command is not a conversation: its one message of the user is state, artifacts and command. A
/// script is shown it as one: the command is the message of the user, the actions that the snapshot lists are calls
/// with their results, and state and artifacts stand behind the rules in the system message. If a rule answers with
/// several calls, they are proposed one after the other. Other requests reach the script as they are.
#[derive(Debug, Clone)]
pub struct ScriptedCommands {
    provider: ScriptedProvider,
    /// The same script without pauses: it finds out which calls were proposed before.
    unpaced: ScriptedProvider,
}

/// The snapshot of a command, as its prompt has it.
#[derive(Deserialize)]
struct ShownSnapshot {
    done: Vec<CommandAction>,
    state: Value,
}

/// The request that a script is shown, and which of the calls of its answer is the proposal; all of them where none is
/// named.
struct ShownRequest {
    request: Request,
    proposed: Option<u32>,
}

impl ScriptedCommands {
    /// Answers by a script.
    #[must_use]
    pub fn new(provider: ScriptedProvider) -> Self {
        let unpaced = provider.clone().with_pace(Arc::new(InstantTimer));
        Self { provider, unpaced }
    }

    /// Finds out what the script is shown of a request. The script is asked again for each proposal before, so that the
    /// calls of one answer are followed by the others of it.
    async fn show_request(&self, request: &Request) -> Result<ShownRequest> {
        let Some((messages, done)) = read_command(&request.messages) else {
            return Ok(ShownRequest { request: request.clone(), proposed: None });
        };
        let mut shown = request.clone();
        shown.messages = messages;
        let mut done = done.as_slice();
        loop {
            let calls = self.unpaced.complete(&shown).await.map(|answer| answer.message.tool_calls);
            let calls = calls.unwrap_or_default();
            let same = calls.iter().zip(done).take_while(|(call, action)| call.name == action.tool).count();
            if calls.is_empty() || same < calls.len() {
                if same == 0 && !done.is_empty() {
                    // The earlier actions are not known any more, or were not those of the script.
                    push_actions(&mut shown.messages, done);
                    return Ok(ShownRequest { request: shown, proposed: Some(0) });
                }
                return Ok(ShownRequest { request: shown, proposed: Some(same as u32) });
            }
            let (batch, rest) = done.split_at(same);
            push_actions(&mut shown.messages, batch);
            done = rest;
        }
    }
}

/// Reads the request of a command: the messages of a conversation that says the same before any action, and the
/// actions.
fn read_command(messages: &[Arc<ChatMessage>]) -> Option<(Vec<Arc<ChatMessage>>, Vec<CommandAction>)> {
    let (rules, message) = match messages {
        [message] => (None, message),
        [rules, message] if rules.role == Role::System => (Some(rules), message),
        _ => return None,
    };
    let text = message.text();
    let (snapshot, rest) = text.strip_prefix(STATE_HEADING)?.strip_prefix('\n')?.split_once('\n')?;
    let ShownSnapshot { done, state } = serde_json::from_str(snapshot).ok()?;
    // Artifacts are one line each, so that none of them looks like the heading.
    let (artifacts, command) = match rest.strip_prefix('\n')?.strip_prefix(ARTIFACTS_HEADING) {
        Some(artifacts) => artifacts.strip_prefix('\n')?.split_once(&format!("\n\n{COMMAND_HEADING}\n"))?,
        None => ("", rest.strip_prefix('\n')?.strip_prefix(COMMAND_HEADING)?.strip_prefix('\n')?),
    };
    let mut system = rules.map(|rules| format!("{}\n\n", rules.text())).unwrap_or_default();
    system.push_str(&format!("{STATE_HEADING}\n{}\n", canonical_json(&state)));
    if !artifacts.is_empty() {
        system.push_str(&format!("\n{ARTIFACTS_HEADING}\n{artifacts}\n"));
    }
    let messages = [ChatMessage::system(system), ChatMessage::user(command)].map(Arc::new).to_vec();
    Some((messages, done))
}

/// Adds actions: a message with their calls, and the result of each.
fn push_actions(messages: &mut Vec<Arc<ChatMessage>>, actions: &[CommandAction]) {
    let id = |at: usize| format!("done-{}", messages.len() + at);
    let calls: Vec<ToolCall> = actions
        .iter()
        .enumerate()
        .map(|(at, action)| {
            ToolCall::new(id(at), action.tool.as_str(), action.arguments.clone().unwrap_or_default())
        })
        .collect();
    let results: Vec<ChatMessage> = calls
        .iter()
        .zip(actions)
        .map(|(call, action)| ChatMessage::tool(call.id.as_str(), action.result.as_str()))
        .collect();
    messages.push(Arc::new(ChatMessage::assistant("").with_tool_calls(calls)));
    messages.extend(results.into_iter().map(Arc::new));
}

/// Keeps of the calls of a stream only the proposed one.
fn keep_proposal(delta: ResponseDelta, proposed: Option<u32>) -> Option<ResponseDelta> {
    match (delta, proposed) {
        (ResponseDelta::ToolCall { index, .. }, Some(proposed)) if index != proposed => None,
        (ResponseDelta::ToolCall { id, name, arguments, signature, .. }, Some(_)) => {
            Some(ResponseDelta::ToolCall { index: 0, id, name, arguments, signature })
        }
        (delta, _) => Some(delta),
    }
}

impl Provider for ScriptedCommands {
    fn model_name(&self) -> &str {
        self.provider.model_name()
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        self.provider.ready()
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        Box::pin(async move {
            let ShownRequest { request, proposed } = self.show_request(request).await?;
            let mut answer = self.provider.complete(&request).await?;
            if let Some(proposed) = proposed {
                let calls = std::mem::take(&mut answer.message.tool_calls);
                answer.message.tool_calls = calls.into_iter().skip(proposed as usize).take(1).collect();
            }
            Ok(answer)
        })
    }

    fn can_stream(&self) -> bool {
        true
    }

    fn stream_deltas<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        Box::pin(async move {
            let ShownRequest { request, proposed } = self.show_request(request).await?;
            let answer = self.provider.stream_script(&request)?;
            let kept = answer.filter_map(move |delta| async move {
                match delta {
                    Ok(delta) => keep_proposal(delta, proposed).map(Ok),
                    Err(error) => Some(Err(error)),
                }
            });
            Ok(kept.boxed())
        })
    }
}
