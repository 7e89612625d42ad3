//! Reading a chat's messages.

use axum::Json;
use axum::extract::Path;
use serde::Deserialize;
use singletree_protocol::steerable::MessagePage;

use super::project::Projection;
use crate::native::{Params, Telling, limit};
use crate::problem::Problem;

/// Which messages to read. What is not known is ignored.
#[derive(Debug, Default, Deserialize)]
pub(super) struct PageQuery {
    /// Where to begin: the `next` of the page before.
    from: Option<u64>,
    /// How many at most.
    limit: Option<u64>,
}

/// Answers with a page of a chat's messages, as clients take them to begin with.
pub(super) async fn page(
    telling: Telling,
    Path(chat): Path<String>,
    Params(query): Params<PageQuery>,
) -> Result<Json<MessagePage>, Problem> {
    let limit = limit(query.limit)?;
    let from = query.from.unwrap_or_default();
    let all = telling.chat();
    let session = all.session(&chat).await.map_err(|it| Problem::of(&it))?;
    let part = all.transcript(&chat, from, limit).await.map_err(|it| Problem::of(&it))?;
    let mut projection = Projection::new(&chat, session.created_at);
    // The one before the page says how late it begins.
    if from > 0 {
        let before = all.messages_before(&chat, from, 1).await.map_err(|it| Problem::of(&it))?;
        before.items.iter().for_each(|it| drop(projection.entry(it)));
    }
    let messages = part.items.iter().filter_map(|it| projection.entry(it));
    Ok(Json(MessagePage {
        messages: messages.collect(),
        next: part.next,
        last_event_id: part.last_event.as_ref().map(ToString::to_string),
    }))
}
