//! The model of a graph's case (conformance-adapter §5.5): a real provider over a server that is a script.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use singletree::engine::ObservedCalls;
use singletree::llm::{
    ActivePrompt, ChatMessage, ConstantRandomSource, Error, ProviderCall, ProviderErrorDetail, Request,
    Response, ToolDefinition,
};
use singletree_http::Secret;
use singletree_providers::{HttpProvider, Wire};

use super::attempts::PauseRecorder;
use super::call::{CallRetrySpec, parse_call_retry};
use super::calling::RetryCallbackLog;
use super::peer::{BASE_URL, KEY, MockAnswerBody, MockHttpAnswer, MockProviderServer};
use super::spec::ProviderMapping;
use super::values::{ValueResult, take_request};
use crate::adapt;
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};

/// How the server of a case answers.
#[derive(Debug, Clone, Default)]
pub(crate) struct GraphModelSpec {
    answers: Vec<MockHttpAnswer>,
}

impl GraphModelSpec {
    /// Takes the server's answers out of a case.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(crate) fn take_from_block(block: &mut YamlMapReader) -> Outcome<Self> {
        let mut spec = Self::default();
        if let Some(list) = block.take_value("mock_llm") {
            for answer in list.into_items()? {
                spec.answers.push(MockHttpAnswer::from_yaml_node(answer)?);
            }
        }
        if let Some(list) = block.take_value("mock_llm_stream") {
            for stream in list.into_items()? {
                spec.answers.extend(parse_streams(stream)?);
            }
        }
        Ok(spec)
    }
}

/// Reads the streams that answer one call: one, or one for each of its attempts.
fn parse_streams(spot: LocatedNode) -> Outcome<Vec<MockHttpAnswer>> {
    if spot.node.get_entry("wire_attempts").is_none() {
        return Ok(vec![parse_stream(spot)?]);
    }
    let mut block = spot.into_map_reader()?;
    let attempts = block.take_required("wire_attempts")?.into_items()?;
    block.reject_remaining_keys()?;
    attempts.into_iter().map(parse_stream).collect()
}

/// Reads a stream: its chunks, and an error in the place of one. An error that comes first is the answer's own.
fn parse_stream(spot: LocatedNode) -> Outcome<MockHttpAnswer> {
    let mut events = Vec::new();
    for chunk in spot.into_items()? {
        if chunk.node.get_entry("error").is_none() {
            events.push(chunk.node.to_json());
            continue;
        }
        let status = parse_stream_error(chunk)?;
        let is_first = events.is_empty();
        return Ok(match is_first {
            true => MockHttpAnswer::Response {
                status,
                headers: Vec::new(),
                body: MockAnswerBody::Json(json!({"error": {"message": "the fixture says so"}})),
            },
            // A server that has sent a status cannot send another one: it breaks off.
            false => stream_answer(MockAnswerBody::BrokenEvents(events)),
        });
    }
    events.push(json!("[DONE]"));
    Ok(stream_answer(MockAnswerBody::Events(events)))
}

fn stream_answer(body: MockAnswerBody) -> MockHttpAnswer {
    MockHttpAnswer::Response { status: 200, headers: Vec::new(), body }
}

fn parse_stream_error(chunk: LocatedNode) -> Outcome<u16> {
    let mut block = chunk.into_map_reader()?;
    let mut error = block.take_required("error")?.into_map_reader()?;
    let status = error.take_required("status")?;
    error.reject_remaining_keys()?;
    block.reject_remaining_keys()?;
    u16::try_from(status.as_integer()?)
        .ok()
        .filter(|status| (400..600).contains(status))
        .ok_or_else(|| CaseFailure::reader_error(&status.path, "is no status of an error"))
}

/// One call of the model, as a node makes it.
#[derive(Debug)]
pub(crate) struct ModelCallSpec {
    request: ValueResult<Request>,
    has_messages: bool,
    model: Option<String>,
    is_streamed: bool,
    retry: Option<CallRetrySpec>,
    /// The text of the answer, where the call itself says it.
    answer: Option<String>,
    /// The field that gets the text of the answer.
    pub(crate) stores: Option<String>,
}

impl ModelCallSpec {
    /// Reads a call.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(crate) fn from_yaml_node(spot: LocatedNode) -> Outcome<Self> {
        let mut block = adapt::expand_synthetic_content(spot)?.into_map_reader()?;
        let has_messages = block.remaining_keys().any(|key| key == "messages");
        let spec = Self {
            request: take_request(&mut block)?,
            has_messages,
            model: block.take_text("model")?,
            is_streamed: block.take_value("stream").map(|value| value.as_bool()).transpose()? == Some(true),
            retry: block.take_value("retry").map(parse_call_retry).transpose()?,
            answer: block.take_text("response")?,
            stores: block.take_text("stores_response_in")?,
        };
        block.reject_remaining_keys()?;
        Ok(spec)
    }

    fn build_request(
        &self,
        prompt: Option<&RenderedPrompt>,
        tools: &[ToolDefinition],
    ) -> Result<Request, Error> {
        let built = self.request.as_ref();
        let mut request = built
            .map_err(|error| Error::InvalidRequest(ProviderErrorDetail::new(error.to_string())))?
            .clone();
        if let Some(prompt) = prompt {
            if !self.has_messages {
                request.messages.clone_from(&prompt.messages);
            }
            request = request.with_prompt(prompt.identity.clone());
        } else if !self.has_messages {
            // 038 asks for an answer that it gives itself, and says nothing.
            request.messages = vec![Arc::new(ChatMessage::user(adapt::UNSAID_MESSAGE))];
        }
        if request.tools.is_empty() {
            request = request.with_tools(tools.to_vec());
        }
        Ok(request)
    }
}

/// A prompt that a node rendered.
#[derive(Debug, Clone)]
pub(crate) struct RenderedPrompt {
    /// Its messages.
    pub(crate) messages: Vec<Arc<ChatMessage>>,
    /// Its identity, as calls made of it carry it.
    pub(crate) identity: ActivePrompt,
}

/// The model of a case: its server, and a provider for each name of a model.
pub(crate) struct GraphModel {
    server: Arc<MockProviderServer>,
    default_model: String,
    /// The tools that the answers of the case ask for.
    tools: Vec<ToolDefinition>,
    answered: Mutex<Vec<Response>>,
}

const MAPPING: ProviderMapping = ProviderMapping { wire: Wire::OpenAi, streams: true };

impl GraphModel {
    /// Makes the model of a case.
    #[must_use]
    pub(crate) fn new(spec: GraphModelSpec) -> Self {
        let named = spec.answers.iter().find_map(MockHttpAnswer::model_name);
        let streams = spec.answers.iter().any(MockHttpAnswer::is_streamed);
        Self {
            default_model: adapt::bound_model_name(named.as_deref(), streams),
            tools: adapt::offered_tools(spec.answers.iter().flat_map(MockHttpAnswer::body_parts)),
            server: Arc::new(MockProviderServer::new(MAPPING, spec.answers, None)),
            answered: Mutex::default(),
        }
    }

    fn build_provider(&self, spec: &ModelCallSpec) -> Result<HttpProvider, Error> {
        let model = spec.model.as_deref().unwrap_or(&self.default_model);
        let server = match &spec.answer {
            None => self.server.clone(),
            Some(text) => {
                let message = json!({"role": "assistant", "content": text});
                let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
                let body = json!({"id": "made", "model": model, "choices": [choice]});
                Arc::new(MockProviderServer::new(MAPPING, vec![MockHttpAnswer::from_body(body)], None))
            }
        };
        HttpProvider::builder(MAPPING.wire, model, server).base_url(BASE_URL).key(Secret::new(KEY)).build()
    }

    /// Makes a call and reports it as a node does.
    ///
    /// # Errors
    /// Those of the provider.
    pub(crate) async fn complete_call(
        &self,
        spec: &ModelCallSpec,
        calls: &ObservedCalls,
        prompt: Option<&RenderedPrompt>,
    ) -> Result<Response, Error> {
        let (request, provider) = (spec.build_request(prompt, &self.tools)?, self.build_provider(spec)?);
        let (pauses, heard) = (PauseRecorder::default(), Arc::new(RetryCallbackLog::default()));
        let policy = spec.retry.as_ref().map(|retry| retry.build_policy(&heard));
        let highest = ConstantRandomSource::from_fraction(1.0);
        let mut call = ProviderCall::of(&provider);
        if let Some(policy) = &policy {
            call = call.retrying(policy, &pauses, &highest);
        }
        let answered = match spec.is_streamed {
            true => calls.complete_with_updates(call, &request, |_| {}).await,
            false => calls.complete(call, &request).await,
        };
        if let Ok(response) = &answered {
            self.lock_answered().push(response.clone());
        }
        answered
    }

    fn lock_answered(&self) -> MutexGuard<'_, Vec<Response>> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the answers of all calls so far.
    pub(crate) fn answers(&self) -> Vec<Response> {
        self.lock_answered().clone()
    }

    /// Returns the bodies that the server has sent so far, each as one JSON value; those of streams are their chunks.
    pub(crate) fn sent_bodies(&self) -> Vec<Value> {
        let sent = self.server.take_captured().into_iter().filter_map(|request| request.answer);
        sent.map(|answer| match answer.is_streamed() {
            true => answer.body_parts().to_vec().into(),
            false => answer.body_parts().first().cloned().unwrap_or_default(),
        })
        .collect()
    }

    /// Returns descriptions of the requests to which the case has no answer.
    pub(crate) fn complaints(&self) -> Vec<String> {
        self.server.complaints()
    }
}

impl fmt::Debug for GraphModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphModel").field("default_model", &self.default_model).finish_non_exhaustive()
    }
}
