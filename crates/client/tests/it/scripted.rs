//! An engine that answers from a list, a person who decides by a list, and hands that record their actions.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::LocalBoxFuture;
use futures_util::stream;
use serde_json::{Value, json};
use singletree_client::{
    ActionExecutor, Confirmation, Connection, ConversationRound, DirectiveNote, EngineClient, EngineQuestion,
    EngineRetry, Error, PersonInterface, ShellConversation, ShellConversationParts, ShellProfile,
    ShellSession,
};
use singletree_http::{BoxFuture, HttpRequest, HttpResponse, Transport};
use singletree_protocol::openharness::ActionDirective;

/// The reaction of an engine to one request.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// Answers with a status and a body; the request's own id is put in.
    Message(u16, Value),
    /// Answers with these bytes.
    Bytes(u16, &'static str),
    /// Is not there.
    Gone,
}

/// An engine that answers from a list.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    replies: Mutex<VecDeque<Reply>>,
    /// The requests that it received.
    pub(crate) asked: Mutex<Vec<Value>>,
}

impl Engine {
    pub(crate) fn of(replies: impl IntoIterator<Item = Reply>) -> Arc<Self> {
        Arc::new(Self { replies: Mutex::new(replies.into_iter().collect()), asked: Mutex::default() })
    }

    pub(crate) fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }
}

impl Transport for Engine {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, singletree_http::Result<HttpResponse>> {
        let asked: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let reply = self.replies.lock().unwrap().pop_front().expect("the engine was asked once too often");
        let (status, body) = match reply {
            Reply::Gone => {
                let gone =
                    singletree_http::Error::Unreachable { host: "engine".into(), source: "gone".into() };
                self.asked.lock().unwrap().push(asked);
                return Box::pin(std::future::ready(Err(gone)));
            }
            Reply::Bytes(status, bytes) => (status, bytes.to_owned()),
            Reply::Message(status, mut message) => {
                if message.get("request_id").is_none() && asked.get("request_id").is_some() {
                    message["request_id"] = asked["request_id"].clone();
                }
                (status, message.to_string())
            }
        };
        self.asked.lock().unwrap().push(asked);
        let body = Box::pin(stream::once(std::future::ready(Ok(Bytes::from(body)))));
        Box::pin(std::future::ready(Ok(HttpResponse { status, headers: Vec::new(), body })))
    }
}

/// An answer that all is well, with these directives.
pub(crate) fn success(directives: Value) -> Reply {
    let response = json!({"status": "success", "action_directives": directives});
    Reply::Message(200, json!({"protocol_version": "1.0.0", "response": response}))
}

/// An answer with an error.
pub(crate) fn error(code: &str, retryable: bool) -> Reply {
    let error = json!({"code": code, "message": "told", "retryable": retryable});
    let response = json!({"status": "error", "error": error});
    Reply::Message(200, json!({"protocol_version": "1.0.0", "response": response}))
}

/// A question with two answers.
pub(crate) fn question(name: &str) -> Value {
    let option = |id: &str| {
        let token = format!("{name}-{id}");
        json!({"id": id, "label": id, "continuation": {"run_id": name, "continuation_token": token}})
    };
    json!({"action_type": "request_approval", "risk_tier": "dangerous", "payload": {
        "signal_id": name, "run_id": name, "title": "t", "prompt": "p",
        "action": {"name": "send", "params_summary": "s", "params_sha256": "d"},
        "options": [option("approve"), option("reject")], "fallback_message": "f",
    }})
}

/// An event at the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Happened {
    Shown(String),
    Noted(DirectiveNote),
    Asked(String),
    Confirmed(String),
    Performed(String),
}

/// A person who decides by a list; time passes while they do.
#[derive(Debug, Default)]
pub(crate) struct Decider {
    pub(crate) choices: VecDeque<Option<usize>>,
    pub(crate) confirms: VecDeque<bool>,
    pub(crate) happened: Arc<Mutex<Vec<Happened>>>,
}

impl Decider {
    fn record(&self, what: Happened) {
        self.happened.lock().unwrap().push(what);
    }
}

impl PersonInterface for Decider {
    fn show_text(&mut self, text: &str) {
        self.record(Happened::Shown(text.to_owned()));
    }

    fn report_note(&mut self, note: &DirectiveNote) {
        self.record(Happened::Noted(note.clone()));
    }

    fn ask_question<'a>(&'a mut self, question: &'a EngineQuestion) -> LocalBoxFuture<'a, Option<usize>> {
        self.record(Happened::Asked(question.signal_id.clone()));
        Box::pin(std::future::ready(self.choices.pop_front().flatten()))
    }

    fn ask_confirmation<'a>(&'a mut self, asked: &'a Confirmation) -> LocalBoxFuture<'a, bool> {
        self.record(Happened::Confirmed(asked.action.clone()));
        Box::pin(std::future::ready(self.confirms.pop_front().unwrap_or(false)))
    }
}

/// Hands that record their actions.
#[derive(Debug)]
struct Recording(Arc<Mutex<Vec<Happened>>>);

impl ActionExecutor for Recording {
    fn perform_action<'a>(
        &'a mut self,
        directive: &'a ActionDirective,
    ) -> LocalBoxFuture<'a, Result<(), String>> {
        self.0.lock().unwrap().push(Happened::Performed(directive.action_type.clone()));
        let broken = directive.action_type == "com.example.broken";
        Box::pin(std::future::ready(if broken { Err("it is broken".to_owned()) } else { Ok(()) }))
    }
}

/// Says something to an engine, as a person who decides so; each look at the clock is a second later.
pub(crate) async fn say(
    engine: &Arc<Engine>,
    person: &mut Decider,
    attempts: u32,
) -> Result<ConversationRound, Error> {
    let connection = Connection::new(engine.clone(), "http://127.0.0.1:1", None).unwrap();
    let retry = EngineRetry::new(attempts, Duration::ZERO, |_| Box::pin(std::future::ready(())));
    let profile = ShellProfile::for_text_shell("test", "1");
    let profile = ["open", "broken", "pay"]
        .iter()
        .fold(profile, |it, name| it.with_action(format!("com.example.{name}")));
    let (ids, seconds) = (Cell::new(0), Cell::new(0));
    let mut hands = Recording(person.happened.clone());
    let parts = ShellConversationParts {
        engine: EngineClient::new(connection, retry),
        shell: ShellSession::new(profile, Some("s".into())),
        person,
        hands: &mut hands,
        ids: &|| {
            ids.set(ids.get() + 1);
            format!("req-{}", ids.get())
        },
        clock: &|| {
            seconds.set(seconds.get() + 1);
            Duration::from_secs(seconds.get())
        },
    };
    ShellConversation::new(parts).send_intent("go").await
}
