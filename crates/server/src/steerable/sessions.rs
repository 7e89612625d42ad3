//! Agent sessions: the framework's records of chats. Each chat has one session here, with the same id. The user of a
//! session is the tenant: the server does not know the tenant's users, and ignores the user that a client names.

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use singletree_durable::StoredTurnStatus;
use singletree_harness::{Chat, ChatTurnOutcome, CreateOptions, Error, FailureBucket, SessionInfo};
use singletree_protocol::steerable::{AgentSession, CreateAgentSession};

use crate::body::JsonPayload;
use crate::native::{HandlerContext, StrictQuery, convert_time, resolve_page_limit};
use crate::problem::RequestProblem;

/// The maximum number of sessions that are searched for active ones; the most recently changed come first.
const LOOKED_AT: usize = 5000;

/// The number of sessions in one read.
const PAGE: u64 = 100;

/// The scenario that stands for any agent: the default agent answers.
const ANY_SCENARIO: &str = "agent-entry";

/// The sessions to list. Unknown parameters are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SteerableSessionQuery {
    /// Only the session of this chat.
    chat_id: Option<String>,
    /// Only sessions that take turns.
    #[serde(default)]
    active_only: bool,
    /// The maximum number of sessions.
    limit: Option<u64>,
}

/// Lists sessions, the most recently changed first.
pub(super) async fn list_sessions(
    telling: HandlerContext,
    StrictQuery(query): StrictQuery<SteerableSessionQuery>,
) -> Result<Json<Vec<AgentSession>>, RequestProblem> {
    let limit = usize::try_from(resolve_page_limit(query.limit)?).unwrap_or(usize::MAX);
    let chat = telling.caller_chat();
    if let Some(id) = &query.chat_id {
        let found = match chat.session(id).info().await {
            Ok(info) => read_listed_session(&telling, &chat, &info, query.active_only).await?,
            Err(Error::SessionUnknown { .. }) => None,
            Err(error) => return Err(RequestProblem::from_chat_error(&error)),
        };
        return Ok(Json(found.into_iter().collect()));
    }
    let (mut sessions, mut seen, mut from) = (Vec::new(), 0, None);
    while seen < LOOKED_AT {
        let page = chat
            .recent_sessions(from.as_deref(), PAGE)
            .await
            .map_err(|error| RequestProblem::from_chat_error(&error))?;
        seen += page.items.len();
        for info in &page.items {
            sessions.extend(read_listed_session(&telling, &chat, info, query.active_only).await?);
            if sessions.len() == limit {
                return Ok(Json(sessions));
            }
        }
        let Some(next) = page.next else { break };
        from = Some(next);
    }
    Ok(Json(sessions))
}

/// Returns the record of a session, if it belongs in the list.
async fn read_listed_session(
    telling: &HandlerContext,
    chat: &Chat,
    info: &SessionInfo,
    active_only: bool,
) -> Result<Option<AgentSession>, RequestProblem> {
    match read_session_record(telling, chat, info).await {
        Ok(session) => Ok(Some(session).filter(|session| session.is_active || !active_only)),
        // The session was deleted meanwhile.
        Err(Error::SessionUnknown { .. }) => Ok(None),
        Err(error) => Err(RequestProblem::from_chat_error(&error)),
    }
}

/// Returns one session.
pub(super) async fn show_session(
    telling: HandlerContext,
    Path(session): Path<String>,
) -> Result<Json<AgentSession>, RequestProblem> {
    let chat = telling.caller_chat();
    let info =
        chat.session(&session).info().await.map_err(|error| RequestProblem::from_chat_error(&error))?;
    read_session_record(&telling, &chat, &info)
        .await
        .map(Json)
        .map_err(|error| RequestProblem::from_chat_error(&error))
}

/// Creates a session, or answers with the existing one of the chat.
pub(super) async fn create_session(
    telling: HandlerContext,
    JsonPayload(wanted): JsonPayload<CreateAgentSession>,
) -> Result<Response, RequestProblem> {
    let mut options = CreateOptions::new();
    if let Some(id) = &wanted.chat_id {
        options = options.session(id);
    }
    if let Some(agent) = wanted.scenario.filter(|scenario| scenario != ANY_SCENARIO) {
        options = options.agent(agent);
    }
    let chat = telling.caller_chat();
    let (status, info) = match (chat.create_session(options).await, &wanted.chat_id) {
        (Ok(info), _) => (StatusCode::CREATED, info),
        (Err(Error::SessionExists { .. }), Some(id)) => (
            StatusCode::OK,
            chat.session(id).info().await.map_err(|error| RequestProblem::from_chat_error(&error))?,
        ),
        (Err(error), _) => return Err(RequestProblem::from_chat_error(&error)),
    };
    let session = read_session_record(&telling, &chat, &info)
        .await
        .map_err(|error| RequestProblem::from_chat_error(&error))?;
    Ok((status, Json(session)).into_response())
}

async fn read_session_record(
    telling: &HandlerContext,
    chat: &Chat,
    info: &SessionInfo,
) -> Result<AgentSession, Error> {
    let (stage, is_active) = read_session_stage(chat, &info.session).await?;
    Ok(AgentSession {
        id: None,
        session_id: info.session.clone(),
        user_id: telling.caller.tenant.to_string(),
        project_id: None,
        chat_id: info.session.clone(),
        current_stage: stage,
        next_stage: None,
        scenario: info.agent.clone(),
        stage_data: None,
        is_active,
        created_at: convert_time(info.created_at).0,
        updated_at: convert_time(info.updated_at).0,
    })
}

/// Returns the stage of a session, and whether it takes turns: it does not after an error that ends it.
async fn read_session_stage(chat: &Chat, session: &str) -> Result<(String, bool), Error> {
    if !chat.session(session).open_turns().await?.is_empty() {
        return Ok(("running".to_owned(), true));
    }
    if let Some(wait) = chat.session(session).pending().await?.first() {
        return Ok((format!("suspended:{}", wait.descriptor.signal_id), true));
    }
    let newest = chat
        .session(session)
        .newest_turn()
        .await?
        .filter(|newest_turn| newest_turn.status == StoredTurnStatus::Errored);
    if let Some(newest) = newest {
        let outcome = chat.turn(&newest.id).await?.outcome().await;
        if let ChatTurnOutcome::Errored(it) = outcome.as_ref()
            && it.error_bucket == FailureBucket::SessionTerminating
        {
            return Ok(("terminated".to_owned(), false));
        }
    }
    Ok(("idle".to_owned(), true))
}
