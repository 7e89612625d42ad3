//! Conversion of the harness's types to the JSON types of the API.

use serde_json::Value;
use singletree_durable::{StoredTurnKind, StoredTurnStatus, Timestamp};
use singletree_harness::{
    ChatEvent, ChatEventKind, ChatTurnOutcome, ErroredTurn, FailedTurnEntry, FailureBucket, MessageId,
    PendingWait, SessionInfo, SuspendedTurn, TranscriptEntry, TurnActivity, TurnActivityState, TurnInfo,
    TurnPromptPolicy,
};
use singletree_llm as llm;
use singletree_protocol::native;

/// The rules for the parts of a conversation that readers may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ContentVisibility {
    /// Whether the agent's configuration shows the thinking of its model (D19).
    pub(crate) thinking: bool,
}

/// Converts a timestamp.
pub(crate) fn convert_time(at: Timestamp) -> native::Time {
    native::Time(humantime::format_rfc3339_millis(at.to_system_time()).to_string())
}

/// Converts the bucket of an error.
pub(crate) fn convert_bucket(bucket: FailureBucket) -> native::ErrorBucket {
    match bucket {
        FailureBucket::SessionTerminating => native::ErrorBucket::SessionTerminating,
        FailureBucket::RetryableTransient => native::ErrorBucket::RetryableTransient,
        FailureBucket::UserCorrectable => native::ErrorBucket::UserCorrectable,
    }
}

impl ContentVisibility {
    /// Converts a message without its hidden parts: signatures are always hidden, thinking depends on the view.
    pub(crate) fn convert_message(self, message: &llm::ChatMessage) -> native::Message {
        let role = match message.role {
            llm::Role::System => native::Role::System,
            llm::Role::User => native::Role::User,
            llm::Role::Assistant => native::Role::Assistant,
            llm::Role::Tool => native::Role::Tool,
        };
        let content = match &message.content {
            llm::MessageContent::Text(text) => native::Content::Text(text.clone()),
            llm::MessageContent::Blocks(blocks) => self.convert_blocks(blocks),
        };
        let tool_calls = message.tool_calls.iter().map(|tool_call| native::ToolCall {
            id: tool_call.id.clone(),
            name: tool_call.name.clone(),
            arguments: tool_call.arguments.clone(),
        });
        let tool_calls = tool_calls.collect();
        native::Message { role, content, tool_calls, tool_call_id: message.tool_call_id.clone() }
    }

    /// Converts blocks; a single block of text becomes plain text.
    fn convert_blocks(self, blocks: &[llm::ContentBlock]) -> native::Content {
        let mut shown: Vec<_> = blocks.iter().filter_map(|block| self.convert_block(block)).collect();
        match shown.as_mut_slice() {
            [] => native::Content::Text(String::new()),
            [native::Block::Text { text }] => native::Content::Text(std::mem::take(text)),
            _ => native::Content::Blocks(shown),
        }
    }

    fn convert_block(self, block: &llm::ContentBlock) -> Option<native::Block> {
        match block {
            llm::ContentBlock::Text { text, .. } => Some(native::Block::Text { text: text.clone() }),
            llm::ContentBlock::Image { source, media_type, detail } => Some(native::Block::Image {
                source: match source {
                    llm::ImageContentSource::Url { url } => native::ImageSource::Url { url: url.clone() },
                    llm::ImageContentSource::Inline { base64_data } => {
                        native::ImageSource::Inline { base64_data: base64_data.clone() }
                    }
                },
                media_type: media_type.clone(),
                detail: detail.map(|detail| match detail {
                    llm::ImageDetailLevel::Auto => native::ImageDetail::Auto,
                    llm::ImageDetailLevel::Low => native::ImageDetail::Low,
                    llm::ImageDetailLevel::High => native::ImageDetail::High,
                }),
            }),
            llm::ContentBlock::Thinking { text, .. } => {
                self.thinking.then(|| native::Block::Thinking { text: text.clone() })
            }
            llm::ContentBlock::RedactedThinking { .. } => None,
        }
    }

    /// Writes an entry of a history.
    pub(crate) fn convert_transcript_entry(self, entry: &TranscriptEntry) -> native::HistoryMessage {
        native::HistoryMessage {
            seq: entry.seq,
            id: entry.id.as_ref().map(ToString::to_string),
            at: entry.at.map(convert_time),
            message: self.convert_message(&entry.message),
            side: entry.side.as_ref().map(convert_side_record),
        }
    }

    /// Writes a turn that failed.
    pub(crate) fn convert_failed_turn(self, failed: &FailedTurnEntry) -> native::FailedTurn {
        type WithSide = (std::sync::Arc<llm::ChatMessage>, Option<Value>);
        let message = |said: &WithSide| self.convert_message(&said.0);
        let unkept = |made: &WithSide| native::UnkeptMessage {
            message: self.convert_message(&made.0),
            side: made.1.as_ref().map(convert_side_record),
        };
        native::FailedTurn {
            turn: failed.turn.id.to_string(),
            place: failed.place,
            accepted_at: convert_time(failed.turn.accepted_at),
            effects: failed.effects,
            message: failed.message.as_ref().map(message),
            made: failed.made.iter().map(unkept).collect(),
            error: convert_errored_turn(&failed.turn.session, &failed.error),
            retries: failed.turn.retries.as_ref().map(ToString::to_string),
            retried_by: failed.retried_by.as_ref().map(ToString::to_string),
        }
    }

    /// Writes an outcome.
    pub(crate) fn convert_outcome(self, session: &str, outcome: &ChatTurnOutcome) -> native::Outcome {
        let messages =
            |it: &[std::sync::Arc<llm::ChatMessage>]| it.iter().map(|it| self.convert_message(it)).collect();
        match outcome {
            ChatTurnOutcome::Completed(it) => native::Outcome::Completed(native::Completed {
                turn: it.turn.to_string(),
                session: session.to_owned(),
                replies: messages(&it.replies),
                finish_reason: it.answer.finish_reason.map(|reason| reason.as_str().to_owned()),
                empty_answer: it.answer.empty_answer,
            }),
            ChatTurnOutcome::Suspended(it) => native::Outcome::Suspended(native::Suspended {
                turn: it.turn.to_string(),
                session: session.to_owned(),
                wait: convert_suspended_wait(session, it),
                pending: messages(&it.pending_messages),
                resumed_by: it.resumed_by.as_ref().map(ToString::to_string),
            }),
            ChatTurnOutcome::Errored(it) => native::Outcome::Errored(convert_errored_turn(session, it)),
        }
    }

    /// Writes an event.
    pub(crate) fn convert_event(self, event: &ChatEvent) -> native::Event {
        let session = event.session.to_string();
        native::Event {
            id: event.id.as_ref().map(ToString::to_string),
            turn: event.turn.to_string(),
            at: convert_time(event.at),
            what: self.convert_event_kind(&session, &event.what),
            session,
        }
    }

    fn convert_taken_message(
        self,
        id: &MessageId,
        message: &llm::ChatMessage,
        side: &Value,
    ) -> native::EventKind {
        native::EventKind::MessageTaken {
            message_id: id.to_string(),
            message: self.convert_message(message),
            side: convert_side_record(side),
        }
    }

    fn convert_event_kind(self, session: &str, what: &ChatEventKind) -> native::EventKind {
        match what {
            ChatEventKind::TurnAccepted { message } => native::EventKind::TurnAccepted {
                message: message.as_ref().map(|message| self.convert_message(message)),
            },
            ChatEventKind::TurnStarted => native::EventKind::TurnStarted {},
            ChatEventKind::TurnRestarted => native::EventKind::TurnRestarted {},
            ChatEventKind::TurnRetrying { attempt, until, category } => native::EventKind::TurnRetrying {
                attempt: *attempt,
                until: convert_time(*until),
                category: category.clone(),
            },
            ChatEventKind::ThinkingDelta { id, run, n, text, so_far } => native::EventKind::ThinkingDelta {
                message_id: id.to_string(),
                run: *run,
                n: *n,
                text: text.clone(),
                so_far: *so_far,
            },
            ChatEventKind::MessageTaken { id, message, side } => {
                self.convert_taken_message(id, message, side)
            }
            ChatEventKind::MessageAppended { id, message, side: beside } => {
                native::EventKind::MessageAppended {
                    message_id: id.to_string(),
                    message: self.convert_message(message),
                    side: beside.as_ref().map(convert_side_record),
                }
            }
            ChatEventKind::Delta { id, run, n, text, so_far, side: beside, unrecorded: _ } => {
                native::EventKind::Delta {
                    message_id: id.to_string(),
                    run: *run,
                    n: *n,
                    text: text.clone(),
                    so_far: *so_far,
                    side: beside.as_ref().map(convert_side_record),
                }
            }
            ChatEventKind::ToolStarted { call, name, arguments } => native::EventKind::ToolStarted {
                call: call.clone(),
                name: name.clone(),
                arguments: arguments.clone(),
            },
            ChatEventKind::ToolFinished { call, name, success, content } => native::EventKind::ToolFinished {
                call: call.clone(),
                name: name.clone(),
                success: *success,
                content: content.clone(),
            },
            ChatEventKind::TurnSuspended { outcome } => {
                native::EventKind::TurnSuspended { outcome: self.convert_outcome(session, outcome) }
            }
            ChatEventKind::SignalReceived { wait, signal, how, from } => native::EventKind::SignalReceived {
                wait: *wait,
                signal: signal.clone(),
                how: parse_signal_end(how),
                from: from.clone(),
            },
            ChatEventKind::TurnCompleted { outcome } => {
                native::EventKind::TurnCompleted { outcome: self.convert_outcome(session, outcome) }
            }
            ChatEventKind::TurnErrored { outcome } => {
                native::EventKind::TurnErrored { outcome: self.convert_outcome(session, outcome) }
            }
            ChatEventKind::SessionForked { parent, offset } => {
                native::EventKind::SessionForked { parent: parent.to_string(), offset: *offset }
            }
        }
    }
}

fn parse_signal_end(how: &str) -> native::SignalEnd {
    match how {
        "expired" => native::SignalEnd::Expired,
        "cancelled" => native::SignalEnd::Cancelled,
        "refused" => native::SignalEnd::Refused,
        _ => native::SignalEnd::Consumed,
    }
}

/// Converts the side record of a message. If it does not have the expected form, all of it goes to the additional
/// fields.
fn convert_side_record(side: &Value) -> native::Side {
    serde_json::from_value(side.clone()).unwrap_or_else(|_| native::Side {
        other: serde_json::Map::from_iter([("beside".to_owned(), side.clone())]),
        ..native::Side::default()
    })
}

fn convert_errored_turn(session: &str, turn: &ErroredTurn) -> native::Errored {
    native::Errored {
        turn: turn.turn.as_ref().map(ToString::to_string),
        session: session.to_owned(),
        bucket: convert_bucket(turn.error_bucket),
        category: turn.error_category.clone(),
        reply: turn.reply.text().into_owned(),
        message: turn.error_message().to_owned(),
        hint: turn.category_hint().map(str::to_owned),
        diagnostic: turn.diagnostic.clone(),
        retry_safe: turn.retry_safe,
    }
}

/// Converts the wait of a suspended turn.
pub(crate) fn convert_suspended_wait(session: &str, turn: &SuspendedTurn) -> native::Wait {
    native::Wait {
        session: session.to_owned(),
        invocation: turn.invocation_id.to_string(),
        number: turn.wait.no,
        signal: turn.signal_descriptor.signal_id.clone(),
        metadata: turn.signal_descriptor.metadata.clone(),
        action: turn.wait.action.clone(),
        deadline: turn.wait.deadline.map(convert_time),
        payload_schema: turn.wait.payload_schema.clone(),
        since: None,
    }
}

/// Writes a wait.
pub(crate) fn convert_pending_wait(wait: &PendingWait) -> native::Wait {
    native::Wait {
        session: wait.session.clone(),
        invocation: wait.invocation.to_string(),
        number: wait.wait.no,
        signal: wait.descriptor.signal_id.clone(),
        metadata: wait.descriptor.metadata.clone(),
        action: wait.wait.action.clone(),
        deadline: wait.wait.deadline.map(convert_time),
        payload_schema: wait.wait.payload_schema.clone(),
        since: Some(convert_time(wait.since)),
    }
}

/// Reads the prompt policy.
pub(crate) fn convert_prompt_policy(policy: native::PromptPolicy) -> TurnPromptPolicy {
    match policy {
        native::PromptPolicy::Conversation => TurnPromptPolicy::Conversation,
        native::PromptPolicy::Command => TurnPromptPolicy::Command,
    }
}

/// Returns the id of the campaign whose turns run in a session, if it is the session of one.
pub(crate) fn campaign_of_session(session: &str) -> Option<&str> {
    session.strip_prefix("campaign:").filter(|id| id.starts_with("cmp_"))
}

/// Converts a session.
pub(crate) fn convert_session(info: &SessionInfo) -> native::Session {
    native::Session {
        id: info.session.clone(),
        agent: info.agent.clone(),
        prompt_policy: match info.prompt_policy {
            TurnPromptPolicy::Conversation => native::PromptPolicy::Conversation,
            TurnPromptPolicy::Command => native::PromptPolicy::Command,
        },
        messages: info.messages,
        campaign: campaign_of_session(&info.session).map(str::to_owned),
        created_at: convert_time(info.created_at),
        updated_at: convert_time(info.updated_at),
        parent: info
            .parent
            .as_ref()
            .map(|parent| native::ForkPoint { session: parent.session.clone(), offset: parent.offset }),
    }
}

/// Writes the activity of an open turn.
fn convert_activity(activity: &TurnActivity) -> native::Activity {
    let (attempt, until, category) = match &activity.state {
        TurnActivityState::Retrying { attempt, until, category } => {
            (Some(*attempt), Some(convert_time(*until)), Some(category.clone()))
        }
        TurnActivityState::Queued | TurnActivityState::Running | TurnActivityState::Waiting => {
            (None, None, None)
        }
    };
    let state = match &activity.state {
        TurnActivityState::Queued => native::ActivityState::Queued,
        TurnActivityState::Running => native::ActivityState::Running,
        TurnActivityState::Retrying { .. } => native::ActivityState::Retrying,
        TurnActivityState::Waiting => native::ActivityState::Waiting,
    };
    native::Activity { state, since: convert_time(activity.since), attempt, until, category }
}

/// Writes a turn, without its outcome.
pub(crate) fn convert_turn(info: &TurnInfo) -> native::Turn {
    native::Turn {
        id: info.id.to_string(),
        session: info.session.clone(),
        agent: info.agent.clone(),
        kind: match info.kind {
            StoredTurnKind::Message => native::TurnKind::Message,
            StoredTurnKind::Resume => native::TurnKind::Resume,
            StoredTurnKind::Close => native::TurnKind::Close,
        },
        status: match info.status {
            StoredTurnStatus::Accepted => native::TurnStatus::Accepted,
            StoredTurnStatus::Suspended => native::TurnStatus::Suspended,
            StoredTurnStatus::Completed => native::TurnStatus::Completed,
            StoredTurnStatus::Errored => native::TurnStatus::Errored,
        },
        accepted_at: convert_time(info.accepted_at),
        ended_at: info.ended_at.map(convert_time),
        retries: info.retries.as_ref().map(ToString::to_string),
        activity: info.activity.as_ref().map(convert_activity),
        outcome: None,
    }
}
