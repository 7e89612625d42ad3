//! A model that gives the answers of a test, in order, and keeps its requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use futures_util::{FutureExt, StreamExt, stream};
use serde_json::Value;
use singletree_llm::{
    BoxFuture, BoxStream, Error, ModelFinishReason, Provider, Request, Response, ResponseDelta,
    ResponseLimits, Result, TokenUsage, complete_streaming,
};

/// One answer, as the pieces in which it comes; or an error.
pub(crate) type Play = Result<Vec<ResponseDelta>>;

#[derive(Debug)]
pub(crate) struct Plays {
    plays: Mutex<VecDeque<Play>>,
    asked: Mutex<Vec<Request>>,
    streams: bool,
}

impl Plays {
    pub(crate) fn of(plays: impl IntoIterator<Item = Play>) -> Arc<Self> {
        let plays = Mutex::new(plays.into_iter().collect());
        Arc::new(Self { plays, asked: Mutex::default(), streams: true })
    }

    /// The same, asked for whole answers only.
    pub(crate) fn whole(plays: impl IntoIterator<Item = Play>) -> Arc<Self> {
        let plays = Mutex::new(plays.into_iter().collect());
        Arc::new(Self { plays, asked: Mutex::default(), streams: false })
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    pub(crate) fn last_request(&self) -> Request {
        self.asked.lock().unwrap().last().unwrap().clone()
    }
}

impl Provider for Plays {
    fn model_name(&self) -> &'static str {
        "plays"
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        async { Ok(()) }.boxed()
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        async move {
            let once = Once(self);
            complete_streaming(&once, request, ResponseLimits::standard(), |_| {}).await
        }
        .boxed()
    }

    fn can_stream(&self) -> bool {
        self.streams
    }

    fn stream_deltas<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        async move {
            self.asked.lock().unwrap().push(request.clone());
            let deltas = self.plays.lock().unwrap().pop_front().expect("the test says what comes")?;
            Ok(stream::iter(deltas.into_iter().map(Ok)).boxed())
        }
        .boxed()
    }
}

/// The same model, which streams.
#[derive(Debug)]
struct Once<'p>(&'p Plays);

impl Provider for Once<'_> {
    fn model_name(&self) -> &str {
        self.0.model_name()
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        self.0.ready()
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        self.0.complete(request)
    }

    fn can_stream(&self) -> bool {
        true
    }

    fn stream_deltas<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        self.0.stream_deltas(request)
    }
}

/// The usage of each answer.
pub(crate) fn usage() -> TokenUsage {
    TokenUsage {
        prompt_tokens: Some(2),
        completion_tokens: Some(1),
        total_tokens: Some(3),
        ..TokenUsage::default()
    }
}

/// An answer of text that ended for a reason.
pub(crate) fn ended(text: &str, reason: ModelFinishReason) -> Play {
    Ok(vec![
        ResponseDelta::from_text(text),
        ResponseDelta::Finish { reason, usage: usage(), raw: Value::Null },
    ])
}

pub(crate) fn says(text: &str) -> Play {
    ended(text, ModelFinishReason::Stop)
}

/// An answer that calls tools: (id, tool, the text of the arguments).
pub(crate) fn calls(calls: &[(&str, &str, &str)]) -> Play {
    let mut deltas: Vec<ResponseDelta> = (0..)
        .zip(calls)
        .map(|(index, (id, name, arguments))| ResponseDelta::ToolCall {
            index,
            id: Some((*id).to_owned()),
            name: Some((*name).to_owned()),
            arguments: Some((*arguments).to_owned()),
            signature: None,
        })
        .collect();
    deltas.push(ResponseDelta::Finish {
        reason: ModelFinishReason::ToolCalls,
        usage: usage(),
        raw: Value::Null,
    });
    Ok(deltas)
}

pub(crate) fn fails(error: fn(singletree_llm::ProviderErrorDetail) -> Error) -> Play {
    Err(error(singletree_llm::ProviderErrorDetail::new("said so")))
}
