//! A model that records its requests, and checks whether a provider would accept them.

use std::sync::{Arc, Mutex};

use singletree_llm::{
    BoxFuture, BoxStream, ChatMessage, Provider, Request, Response, ResponseDelta, Result, Role,
    ScriptedProvider, validate_messages,
};

use crate::rig::line;

/// A model that records its requests.
#[derive(Debug)]
pub(crate) struct Watched {
    model: Box<dyn Provider>,
    asked: Mutex<Vec<Request>>,
}

impl Watched {
    pub(crate) fn over(model: impl Provider + 'static) -> Arc<Self> {
        Arc::new(Self { model: Box::new(model), asked: Mutex::default() })
    }

    pub(crate) fn scripted(script: singletree_llm::Script) -> Arc<Self> {
        Self::over(ScriptedProvider::new(script))
    }

    fn note(&self, request: &Request) {
        self.asked.lock().unwrap().push(request.clone());
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }

    /// Returns the messages of the requests, as lines.
    pub(crate) fn asked(&self) -> Vec<Vec<String>> {
        let lines = |it: &Request| it.messages.iter().map(|it| line(it)).collect();
        self.requests().iter().map(lines).collect()
    }

    /// Returns the names of the tools that were offered, request by request.
    pub(crate) fn offered(&self) -> Vec<Vec<String>> {
        let names = |it: &Request| it.tools.iter().map(|it| it.name().to_owned()).collect();
        self.requests().iter().map(names).collect()
    }

    /// Asserts that every request was one that providers take.
    pub(crate) fn assert_legal(&self, place: &str) {
        for request in self.requests() {
            if let Err(fault) = legal(&request.messages) {
                let lines: Vec<_> = request.messages.iter().map(|it| line(it)).collect();
                panic!("{place}: {fault}: {lines:#?}");
            }
        }
    }
}

/// Checks the rules of the strictest provider: the rules of the specification, and every call answered once, in order,
/// right after the message that makes it (INV-6).
fn legal(messages: &[Arc<ChatMessage>]) -> Result<(), String> {
    let plain: Vec<ChatMessage> = messages.iter().map(|it| it.as_ref().clone()).collect();
    validate_messages(&plain).map_err(|it| it.to_string())?;
    let mut rest = plain.as_slice();
    while let Some((message, after)) = rest.split_first() {
        let answers = after.iter().take_while(|it| it.role == Role::Tool).count();
        let (answers, after) = after.split_at(answers);
        let called: Vec<_> = message.tool_calls.iter().map(|it| Some(it.id.clone())).collect();
        let answered: Vec<_> = answers.iter().map(|it| it.tool_call_id.clone()).collect();
        if called != answered {
            return Err(format!("{called:?} were answered by {answered:?}"));
        }
        rest = after;
    }
    Ok(())
}

impl Provider for Watched {
    fn model_name(&self) -> &str {
        self.model.model_name()
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        self.model.ready()
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        self.note(request);
        self.model.complete(request)
    }

    fn can_stream(&self) -> bool {
        self.model.can_stream()
    }

    fn stream_deltas<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        self.note(request);
        self.model.stream_deltas(request)
    }
}
