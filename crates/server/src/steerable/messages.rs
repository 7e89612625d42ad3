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
    // One more before the page says how late it begins.
    let before = from.min(1);
    let all = telling.chat();
    let session = all.session(&chat).await.map_err(|it| Problem::of(&it))?;
    let part = all.transcript(&chat, from - before, limit + before).await;
    let part = part.map_err(|it| Problem::of(&it))?;
    let mut projection = Projection::new(&chat, session.created_at);
    let messages = part.items.iter().filter_map(|it| projection.entry(it).filter(|_| it.seq >= from));
    Ok(Json(MessagePage {
        messages: messages.collect(),
        next: part.next,
        last_event_id: part.last_event.as_ref().map(ToString::to_string),
    }))
}
