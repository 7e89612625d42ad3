//! The loop's handling of model answers: replies of a schema, unusual finish reasons, repeated calls.

use std::sync::Arc;

use serde_json::json;
use singletree_agent::Agent;
use singletree_durable::MemoryStore;
use singletree_llm::{
    BoxFuture, BoxStream, ChatMessage, Error, Map, ModelFinishReason, ModelRetryPolicy, Provider,
    ProviderErrorDetail, Request, Response, ResponseDelta, Result, Schema, TokenUsage, ToolCall,
};
use singletree_tools::Recovery;

use crate::probe::World;
use crate::rig::{SESSION, completed, errored, open, probes, send, toolbox, transcript};
use crate::watched::Watched;

/// A model that gives the prepared answers, one after the other.
#[derive(Debug)]
struct Saying(std::sync::Mutex<Vec<Result<(ChatMessage, ModelFinishReason)>>>);

impl Saying {
    fn all(answers: impl IntoIterator<Item = Result<(ChatMessage, ModelFinishReason)>>) -> Arc<Watched> {
        let mut answers: Vec<_> = answers.into_iter().collect();
        answers.reverse();
        Watched::over(Self(answers.into()))
    }
}

impl Provider for Saying {
    fn model_name(&self) -> &str {
        "saying"
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn can_stream(&self) -> bool {
        false
    }

    fn stream_deltas<'a>(
        &'a self,
        _: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        unreachable!("it does not stream")
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        Box::pin(async move {
            let (message, finish) = self.0.lock().unwrap().pop().unwrap()?;
            Response::new(message, finish, TokenUsage::default(), json!({})).validate_against(request)
        })
    }
}

fn text(text: &str) -> Result<(ChatMessage, ModelFinishReason)> {
    Ok((ChatMessage::assistant(text), ModelFinishReason::Stop))
}

fn look() -> Result<(ChatMessage, ModelFinishReason)> {
    let arguments: Map = json!({ "what": "a" }).as_object().unwrap().clone();
    let message = ChatMessage::assistant("").with_tool_calls([ToolCall::new("c1", "look", arguments)]);
    Ok((message, ModelFinishReason::ToolCalls))
}

fn schema() -> Arc<Schema> {
    let schema = json!({
        "type": "object", "properties": { "mood": { "enum": ["good", "bad"] } }, "required": ["mood"],
        "additionalProperties": false,
    });
    Arc::new(Schema::compile(schema).unwrap())
}

// spec: llm-provider §7.1: a reply that does not fit is asked for again, and only the fitting reply is part of the
// conversation.
#[tokio::test]
async fn a_reply_that_does_not_fit_its_schema_is_asked_for_again() {
    let world = World::default();
    let model = Saying::all([look(), text("fine"), text(r#"{"mood":"fine"}"#), text(r#"{"mood":"good"}"#)]);
    let agent = Agent::new("a", model.clone()).toolbox(toolbox(probes(&world, Recovery::Report)));
    let chat = open(agent.reply_schema(schema()).build().unwrap(), MemoryStore::new());
    let outcome = send(&chat, "how are you").await;
    let reply = completed(&outcome).replies.last().unwrap().text().into_owned();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&reply).unwrap(), json!({ "mood": "good" }));
    let said = transcript(&chat).await;
    assert_eq!(said.len(), 4, "{said:?}");
    let asked = model.asked();
    assert_eq!(asked[3].len(), asked[1].len() + 4, "the model is told what did not fit: {asked:?}");
    assert!(asked[2].last().unwrap().starts_with("user: That reply does not fit"), "{asked:?}");
    model.assert_legal("asked again");
}

#[tokio::test]
async fn a_reply_that_never_fits_ends_the_turn_and_is_no_part_of_the_conversation() {
    let model = Saying::all([text("a"), text("b"), text("c")]);
    let agent = Agent::new("a", model.clone()).reply_schema(schema()).build().unwrap();
    let chat = open(agent, MemoryStore::new());
    assert_eq!(errored(&send(&chat, "how are you").await).error_category, "structured_output_invalid");
    assert_eq!((model.asked().len(), transcript(&chat).await.len()), (3, 0));
}

// spec: llm-provider §6; D17
#[tokio::test]
async fn why_a_model_stopped_is_kept_beside_its_message_where_it_is_not_as_usual() {
    for (finish, side) in [
        (ModelFinishReason::Stop, None),
        (ModelFinishReason::Length, Some(json!({ "finish_reason": "length" }))),
        (ModelFinishReason::ContentFilter, Some(json!({ "finish_reason": "content_filter" }))),
    ] {
        let model = Saying::all([Ok((ChatMessage::assistant("Half a"), finish))]);
        let chat = open(Agent::new("a", model).build().unwrap(), MemoryStore::new());
        completed(&send(&chat, "hello").await);
        assert_eq!(chat.session(SESSION).history(1..2).await.unwrap()[0].side, side);
    }
}

#[tokio::test]
async fn an_error_that_may_go_away_is_tried_again_when_the_agent_is_told_so() {
    let busy = || Err(Error::Unavailable(ProviderErrorDetail::new("busy")));
    for (retry, ends) in [(None, "errored"), (Some(ModelRetryPolicy::new()), "completed")] {
        let mut agent = Agent::new("a", Saying::all([busy(), busy(), text("Hello.")]));
        if let Some(retry) = retry {
            agent = agent.retry(retry);
        }
        let chat = open(agent.build().unwrap(), MemoryStore::new());
        assert_eq!(send(&chat, "hello").await.as_str(), ends);
    }
}
