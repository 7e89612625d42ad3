//! Pictures of a session as the loop's model sees them.

use std::sync::{Arc, Mutex};

use singletree_agent::Agent;
use singletree_durable::MemoryStore;
use singletree_harness::{Blobs, Chat};
use singletree_llm::{
    BoxFuture, BoxStream, ChatMessage, ContentBlock, ImageContentSource, Provider, Request, Response,
    ResponseDelta, Result, Script, ScriptedProvider,
};

/// A model behind a wire: the requests written to it are kept.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) model: ScriptedProvider,
    pub(crate) sent: Arc<Mutex<Vec<String>>>,
}

impl Wire {
    async fn written(&self, request: &Request) -> Result<()> {
        let inlined = request.inline_pictures().await?;
        let block = |block: &ContentBlock| match block {
            ContentBlock::Image { source: ImageContentSource::Inline { base64_data }, .. } => {
                base64_data.clone()
            }
            other => other.text().unwrap_or_default().to_owned(),
        };
        let blocks = inlined.messages.iter().flat_map(|it| it.content.blocks()).map(block).collect();
        self.sent.lock().unwrap().push(blocks);
        Ok(())
    }
}

impl Provider for Wire {
    fn model_name(&self) -> &str {
        "wire"
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        self.model.ready()
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        Box::pin(async move {
            self.written(request).await?;
            self.model.complete(request).await
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
            self.written(request).await?;
            self.model.stream_deltas(request).await
        })
    }
}

#[tokio::test]
async fn the_model_is_sent_the_bytes_and_the_conversation_keeps_the_name() {
    let sent: Arc<Mutex<Vec<String>>> = Arc::default();
    let model = ScriptedProvider::new(Script::replies(["A dot.", "Still a dot."]));
    let wire = Wire { model, sent: sent.clone() };
    let agent = Agent::new("a", wire).build().unwrap();
    let store = MemoryStore::new();
    let chat = Chat::builder().agent(agent).blobs(Blobs::new(store.clone())).open(store).unwrap();
    let picture = chat.session("s").keep_blob(b"GIF89a\x01\0\x01\0".to_vec(), None).await.unwrap();
    let message = ChatMessage::user(vec![picture.image_block(), ContentBlock::from_text("What is it?")]);
    chat.session("s").send(message.clone()).await;
    chat.session("s").send(ChatMessage::user("And now?")).await;
    assert_eq!(*sent.lock().unwrap(), vec!["R0lGODlhAQABAA==What is it?"; 2]);
    let history = chat.session("s").history(0..9).await.unwrap();
    assert_eq!(*history[0].message, message);
    assert_eq!(history.last().unwrap().message.text(), "Still a dot.");
}
