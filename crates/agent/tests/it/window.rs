//! What the model is shown of a long conversation (D22).

use std::sync::{Arc, Mutex};

use singletree_durable::MemoryStore;
use singletree_llm::{
    BoxFuture, BoxStream, ChatMessage, Delta, Provider, Request, Response, Result, ScriptedProvider,
};
use singletree_tools::Recovery;

use crate::probe::World;
use crate::rig::{line, open, script, send, small_with};

/// A scripted model that notes what it is asked.
#[derive(Debug)]
struct Noting {
    model: ScriptedProvider,
    asked: Mutex<Vec<Vec<String>>>,
}

impl Noting {
    fn note(&self, request: &Request) {
        let lines = request.messages.iter().map(|it: &Arc<ChatMessage>| line(it)).collect();
        self.asked.lock().unwrap().push(lines);
    }
}

impl Provider for Noting {
    fn model(&self) -> &str {
        self.model.model()
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        self.model.ready()
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        self.note(request);
        self.model.complete(request)
    }

    fn streams(&self) -> bool {
        self.model.streams()
    }

    fn stream<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<BoxStream<'a, Result<Delta>>>> {
        self.note(request);
        self.model.stream(request)
    }
}

// D22, INV-6, INV-11: the same request from memory and after a restart, and never half a tool call.
#[tokio::test]
async fn the_model_is_shown_the_end_of_the_conversation_from_a_message_of_the_user_on() {
    for restart in [false, true] {
        let noting = Arc::new(Noting { model: ScriptedProvider::new(script()), asked: Mutex::default() });
        let world = World::default();
        let store = MemoryStore::new();
        let agent = || small_with(noting.clone(), &world, Recovery::Report).window(3).agent("small").unwrap();
        let mut chat = open(agent(), store.clone());
        for text in ["say a", "look", "say b"] {
            if restart {
                chat = open(agent(), store.reopen());
            }
            assert_eq!(send(&chat, text).await.as_str(), "completed");
        }
        let asked = noting.asked.lock().unwrap();
        let look = ["user: look", r#"assistant: [look{"what":"a"}]"#, "tool: did a"];
        let expected: [&[&str]; 4] = [
            &["system: Be brief.", "user: say a"],
            &["system: Be brief.", "user: say a", "assistant: You said: a", "user: look"],
            &["system: Be brief.", look[0], look[1], look[2]],
            &["system: Be brief.", look[0], look[1], look[2], "assistant: All done.", "user: say b"],
        ];
        assert_eq!(*asked, expected, "restart: {restart}");
    }
}
