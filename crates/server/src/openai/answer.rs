//! Answers, as one response or as a stream of chunks.

use serde_json::{Map, Value};
use singletree_harness::ModelTokenUsage;
use singletree_protocol::openai::{
    Choice, Chunk, ChunkChoice, ChunkObject, Completion, CompletionObject, Delta, DeltaCall, FinishReason,
    PromptTokensDetails, Reply, ReplyRole, ToolCall, Usage,
};

use crate::sse::ServerSentEvent;

/// The data of the last frame of a stream.
const DONE: &str = "[DONE]";

/// The fields that all chunks of an answer share.
#[derive(Debug, Clone)]
pub(super) struct CompletionHeader {
    pub(super) id: String,
    pub(super) created: i64,
    pub(super) model: String,
    /// Whether the last chunk reports the usage.
    pub(super) tells_usage: bool,
}

/// The end of an answer.
#[derive(Debug)]
pub(super) struct CompletionEnding {
    pub(super) reason: FinishReason,
    pub(super) calls: Vec<ToolCall>,
    pub(super) usage: Option<Usage>,
    pub(super) ours: Map<String, Value>,
}

impl CompletionHeader {
    /// Returns the whole answer.
    pub(super) fn into_completion(
        self,
        text: String,
        reasoning_content: Option<String>,
        ending: CompletionEnding,
    ) -> Completion {
        let CompletionEnding { reason, calls, usage, ours } = ending;
        let content = (!text.is_empty() || calls.is_empty()).then_some(text);
        let role = ReplyRole::Assistant;
        let message = Reply { role, content, reasoning_content, refusal: None, tool_calls: calls };
        Completion {
            id: self.id,
            object: CompletionObject::Completion,
            created: self.created,
            model: self.model,
            choices: vec![Choice { index: 0, message, logprobs: None, finish_reason: reason }],
            usage,
            singletree: ours,
        }
    }

    /// Returns the first piece.
    pub(super) fn encode_first_chunk(&self) -> ServerSentEvent {
        let role = Some(ReplyRole::Assistant);
        self.encode_delta_chunk(
            Delta { role, content: Some(String::new()), ..Delta::default() },
            None,
            Map::new(),
        )
    }

    /// Returns a piece of text.
    pub(super) fn encode_text_chunk(&self, text: String) -> ServerSentEvent {
        self.encode_delta_chunk(Delta { content: Some(text), ..Delta::default() }, None, Map::new())
    }

    /// Returns a piece of the model's thinking.
    pub(super) fn encode_thought_chunk(&self, text: String) -> ServerSentEvent {
        self.encode_delta_chunk(Delta { reasoning_content: Some(text), ..Delta::default() }, None, Map::new())
    }

    /// Returns the last chunks.
    pub(super) fn encode_last_chunks(&self, ending: CompletionEnding) -> Vec<ServerSentEvent> {
        let CompletionEnding { reason, calls, usage, ours } = ending;
        let mut frames = Vec::new();
        if !calls.is_empty() {
            let tool_calls = (0..).zip(calls).map(|(index, call)| DeltaCall { index, call }).collect();
            frames.push(self.encode_delta_chunk(Delta { tool_calls, ..Delta::default() }, None, Map::new()));
        }
        frames.push(self.encode_delta_chunk(Delta::default(), Some(reason), ours));
        if self.tells_usage {
            let chunk = Chunk { usage: Some(usage), ..self.build_chunk(Vec::new(), Map::new()) };
            frames.push(encode_chunk_frame(&chunk));
        }
        frames.push(ServerSentEvent::from_data(DONE));
        frames
    }

    fn encode_delta_chunk(
        &self,
        delta: Delta,
        finish_reason: Option<FinishReason>,
        ours: Map<String, Value>,
    ) -> ServerSentEvent {
        encode_chunk_frame(
            &self.build_chunk(vec![ChunkChoice { index: 0, delta, logprobs: None, finish_reason }], ours),
        )
    }

    fn build_chunk(&self, choices: Vec<ChunkChoice>, singletree: Map<String, Value>) -> Chunk {
        let Self { id, created, model, tells_usage } = self.clone();
        let (object, usage) = (ChunkObject::Chunk, tells_usage.then_some(None));
        Chunk { id, object, created, model, choices, usage, singletree }
    }
}

fn encode_chunk_frame(chunk: &Chunk) -> ServerSentEvent {
    ServerSentEvent::from_data(
        serde_json::to_string(chunk).expect("a chunk of strings, numbers and JSON is JSON"),
    )
}

/// Sums up the usage of all models; `None` if no provider reported it.
pub(super) fn sum_token_usage(used: &[ModelTokenUsage]) -> Option<Usage> {
    if used.is_empty() {
        return None;
    }
    let sum = |of: fn(&ModelTokenUsage) -> u64| used.iter().map(of).fold(0, u64::saturating_add);
    let (prompt_tokens, completion_tokens) = (sum(|it| it.prompt_tokens), sum(|it| it.completion_tokens));
    Some(Usage {
        prompt_tokens,
        completion_tokens,
        total_tokens: prompt_tokens.saturating_add(completion_tokens),
        prompt_tokens_details: PromptTokensDetails { cached_tokens: sum(|it| it.cached_tokens) },
    })
}
