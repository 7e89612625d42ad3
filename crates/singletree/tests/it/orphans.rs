//! An agent with tools over each vendor's wire: its process dies at every write, its turn is cancelled at every piece
//! of a reply, and every request that the server ever gets is one that it accepts (INV-6).

#[path = "../../../providers/tests/it/rules/anthropic.rs"]
mod anthropic;
#[path = "../../../providers/tests/it/rules/gemini.rs"]
mod gemini;
#[path = "../../../providers/tests/it/rules/openai.rs"]
mod openai;

mod server;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use singletree::agent::ApprovalPolicy;
use singletree::durable::{Journal, JournalMaintenance};
use singletree::harness::GraphAgent;
use singletree::llm::{
    BoxFuture, BoxStream, Provider, Request, Response, ResponseDelta, Result as Asked, ToolDefinition,
};
use singletree::tools::{Effect, Invocation, Output, Recovery, Result as Called, Tool, ToolLimits, Toolbox};
use singletree::{Agent, Chat, ChatMessage, ChatTurnOutcome, MemoryStore, SendOptions};
use singletree_providers::{HttpProvider, Wire};
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};

use server::Server;

const WIRES: [Wire; 3] = [Wire::OpenAi, Wire::Anthropic, Wire::Gemini];
const SESSION: &str = "s";

/// A tool that returns a description of its effect.
#[derive(Debug)]
struct Does(ToolDefinition, Effect);

impl Does {
    fn shared(name: &str, effect: Effect) -> Arc<dyn Tool> {
        let parameters = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
        Arc::new(Self(ToolDefinition::new(name, "Does it.", parameters).unwrap(), effect))
    }
}

impl Tool for Does {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn effect(&self) -> Effect {
        self.1
    }

    fn on_unknown_outcome(&self) -> Recovery {
        Recovery::Report
    }

    fn call<'a>(&'a self, _: Invocation<'a>) -> BoxFuture<'a, Called<Output>> {
        Box::pin(async { Ok(Output::text("done")) })
    }
}

/// A provider with the limit of tokens that one of the wires cannot do without.
#[derive(Debug)]
struct Limited(HttpProvider);

impl Provider for Limited {
    fn model_name(&self) -> &str {
        self.0.model_name()
    }

    fn ready(&self) -> BoxFuture<'_, Asked<()>> {
        self.0.ready()
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Asked<Response>> {
        self.0.complete(request)
    }

    fn can_stream(&self) -> bool {
        true
    }

    fn stream_deltas<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, Asked<BoxStream<'a, Asked<ResponseDelta>>>> {
        let mut request = request.clone();
        request.config.max_tokens = Some(100);
        // It has to live as long as the deltas; a test may lose a little memory for that.
        self.0.stream_deltas(Box::leak(Box::new(request)))
    }
}

fn agent(server: &Arc<Server>) -> GraphAgent {
    let provider = HttpProvider::builder(server.wire, "m", server.clone()).build().unwrap();
    let tools = vec![Does::shared("look", Effect::Read), Does::shared("act", Effect::SafeWrite)];
    let limits = ToolLimits { time: Duration::from_secs(5), output_bytes: 1000 };
    Agent::new("a", Limited(provider))
        .instructions("Be brief.")
        .toolbox(Toolbox::new(tools, limits).unwrap())
        .ask_before(ApprovalPolicy::default())
        .build()
        .unwrap()
}

fn open(server: &Arc<Server>, store: impl Journal + JournalMaintenance + 'static) -> Chat {
    Chat::builder().agent(agent(server)).open(store).unwrap()
}

/// Asserts that the server accepts everything that it was ever sent.
fn assert_accepted(server: &Server, place: &str) {
    for (at, body) in server.sent().iter().enumerate() {
        let faults = match server.wire {
            Wire::OpenAi => openai::faults(body),
            Wire::Anthropic => anthropic::faults(body),
            Wire::Gemini => gemini::faults(body),
        };
        assert_eq!(faults, [""; 0], "{:?}, {place}, request {at}: {body}", server.wire);
    }
}

/// Goes on after whatever happened; the reply shows that the server took the history.
async fn go_on(chat: &Chat, server: &Server, place: &str) {
    let outcome = tokio::time::timeout(
        Duration::from_secs(20),
        chat.session(SESSION).send(ChatMessage::user("Go on.")),
    )
    .await;
    let ChatTurnOutcome::Completed(turn) = outcome.unwrap() else { panic!("{:?}, {place}", server.wire) };
    assert_eq!(turn.replies.last().unwrap().text(), "All done.", "{place}");
    assert_accepted(server, place);
}

/// Lets the process die at its n-th write, and the next one go on. Says whether there was such a write.
async fn dies(wire: Wire, n: u64, land: FailedWriteEffect) -> bool {
    let (server, store) = (Server::new(wire), MemoryStore::new());
    let dying = FaultInjectingStore::new(Arc::new(store.clone()), n, land);
    let first = open(&server, dying.clone());
    let asked = first.session(SESSION).submit(ChatMessage::user("Go."), SendOptions::new().key("k")).await;
    if let Ok(turn) = asked {
        drop(turn.outcome().await);
    }
    first.shutdown(Duration::ZERO).await;
    if !dying.fired() {
        return false;
    }
    let place = format!("dies at write {n}, {land:?}");
    let second = open(&server, store.reopen());
    for turn in second.sweep().await.unwrap() {
        drop(turn.outcome().await);
    }
    go_on(&second, &server, &place).await;
    true
}

#[tokio::test]
async fn a_process_that_dies_at_any_write_of_a_tool_loop_leaves_a_history_that_the_server_accepts() {
    for wire in WIRES {
        for land in [FailedWriteEffect::Before, FailedWriteEffect::After] {
            let mut n = 1;
            while dies(wire, n, land).await {
                n += 1;
            }
            assert!(n > 5, "{wire:?}: the loop writes, and dies");
        }
    }
}

/// Cancels the turn after so many pieces of its replies. Says whether it had so many.
async fn cancelled(wire: Wire, pieces: usize) -> bool {
    let server = Server::gated(wire, pieces);
    let chat = open(&server, MemoryStore::new());
    let turn = chat.session(SESSION).submit(ChatMessage::user("Go."), SendOptions::new()).await.unwrap();
    tokio::select! {
        outcome = turn.outcome() => {
            assert!(matches!(*outcome, ChatTurnOutcome::Completed(_)), "{outcome:?}");
            assert_accepted(&server, "whole");
            return false;
        }
        () = server.is_waiting() => {}
    }
    let ended = chat.cancel(turn.id()).await.unwrap().outcome().await;
    assert!(matches!(*ended, ChatTurnOutcome::Errored(_)), "{ended:?}");
    server.release();
    go_on(&chat, &server, &format!("cancelled after {pieces} pieces")).await;
    true
}

#[tokio::test]
async fn a_turn_that_is_cancelled_at_any_piece_of_a_reply_leaves_a_history_that_the_server_accepts() {
    for wire in WIRES {
        let mut pieces = 0;
        while cancelled(wire, pieces).await {
            pieces += 1;
        }
        assert!(pieces > 8, "{wire:?}: there are pieces to stop at");
    }
}

#[tokio::test]
async fn a_history_that_is_not_closed_would_be_seen() {
    // The rules are no rubber stamp: a request of each wire, its last message taken away, is refused.
    for wire in WIRES {
        let server = Server::new(wire);
        go_on(&open(&server, MemoryStore::new()), &server, "whole").await;
        let mut body: Value = server.sent().pop().unwrap();
        let name = if wire == Wire::Gemini { "contents" } else { "messages" };
        body[name].as_array_mut().unwrap().pop();
        let faults = match wire {
            Wire::OpenAi => openai::faults(&body),
            Wire::Anthropic => anthropic::faults(&body),
            Wire::Gemini => gemini::faults(&body),
        };
        assert_ne!(faults, [""; 0], "{wire:?}: {body}");
    }
}
