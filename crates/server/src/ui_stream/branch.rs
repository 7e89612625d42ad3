//! The session behind a page's chat.
//!
//! At first a chat is the session with its id. Editing a message and asking for another answer are forks (D12): the
//! old session does not change, and the conversation goes on in a new one. The page does not know that and keeps its
//! chat's id, so that id stands for the newest branch from then on. The old session stays available to all other
//! clients.

use serde::{Deserialize, Serialize};
use singletree_durable::{
    DocumentChange, DocumentKey, DocumentPrecondition, JsonDocument, SessionId, TenantId,
};

use crate::native::HandlerContext;
use crate::problem::RequestProblem;

/// The kind of document that maps a chat to its session. It belongs to that session and is deleted with it.
const KIND: &str = "ui_branch";

#[derive(Debug, Serialize, Deserialize)]
struct UiBranchRecord {
    session: String,
}

fn branch_document_key(tenant: &TenantId, chat: &str) -> DocumentKey {
    DocumentKey::new(tenant.clone(), KIND, chat)
}

/// Returns the current session of a chat.
pub(super) async fn find_current_session(
    telling: &HandlerContext,
    chat: &str,
) -> Result<String, RequestProblem> {
    let key = branch_document_key(&telling.caller.tenant, chat);
    let document = telling
        .shared
        .documents
        .read_document(&key)
        .await
        .map_err(|error| RequestProblem::from_chat_error(&error.into()))?;
    let branch = document.and_then(|document| document.body.decode::<UiBranchRecord>().ok());
    Ok(branch.map_or_else(|| chat.to_owned(), |branch| branch.session))
}

/// Maps a chat to another session from now on.
pub(super) async fn map_chat_to_session(
    telling: &HandlerContext,
    chat: &str,
    session: &str,
) -> Result<(), RequestProblem> {
    let owner =
        SessionId::parse(session).map_err(|error| RequestProblem::invalid_request(error.to_string()))?;
    let change = DocumentChange::Write {
        key: branch_document_key(&telling.caller.tenant, chat),
        expect: DocumentPrecondition::Any,
        session: Some(owner),
        body: JsonDocument::from(&serde_json::json!(UiBranchRecord { session: session.to_owned() })),
        expires_at: None,
    };
    telling
        .shared
        .documents
        .change_documents(vec![change])
        .await
        .map_err(|error| RequestProblem::from_chat_error(&error.into()))
}
