//! A session is made as a copy of another one's beginning (D12). Nothing of the other one changes.

use singletree_durable::{
    BatchPrecondition, FieldRow, FieldValue, InvocationId, ItemPlacement, JsonDocument, ParentSession,
    RowMutation, SessionHead, SessionId, SessionRow,
};
use singletree_graph::Item;

use super::create::check_session_absent;
use crate::Error;
use crate::batch::{BatchBuilder, ItemMetadata, ItemNumbering, TurnIdentity};
use crate::codec::record::decode_message;
use crate::event::ChatEventKind;
use crate::history::HISTORY;
use crate::queue::CallerHandle;
use crate::state::SessionState;
use crate::turn_id::{MessageId, TurnId};

/// The source of a fork, and the part of it that the fork copies.
#[derive(Debug)]
pub struct ForkSource<'a> {
    /// The other session, as it was read.
    pub source: &'a SessionRow,
    /// How many messages are copied.
    pub offset: u64,
    /// How many bytes they have (D13).
    pub bytes: u64,
    /// The results that close the calls that are open there (D8).
    pub closings: Vec<Item>,
    /// Names the fork in its events; it is no turn that could be asked for.
    pub name: InvocationId,
}

/// Returns the number of messages of a stored session, and the generation of their rows.
pub fn find_history_list(row: &SessionRow) -> Option<(u64, u64)> {
    row.fields.iter().find(|field| field.name == HISTORY).and_then(|field| match field.value {
        FieldValue::List { generation, len, .. } => Some((generation, len)),
        FieldValue::Value(_) => None,
    })
}

/// Makes a session as a copy of the source.
///
/// # Errors
/// `chat_session_exists`; `store_corrupt`.
pub fn fork_session<H: CallerHandle>(
    state: &mut SessionState<H>,
    writing: &mut BatchBuilder,
    forking: ForkSource<'_>,
) -> Result<(), Error> {
    check_session_absent(state, writing)?;
    write_session_fork(writing, forking)?;
    state.begin_session(writing.find_written_head());
    Ok(())
}

pub(crate) fn write_session_fork(writing: &mut BatchBuilder, forking: ForkSource<'_>) -> Result<(), Error> {
    let ForkSource { source, offset, bytes, closings, name } = forking;
    let from = &source.key.session;
    writing.require(BatchPrecondition::SessionAbsent);
    writing.require(BatchPrecondition::Source {
        session: from.clone(),
        created_at: source.head.created_at,
        version: source.head.version,
    });
    // Numbers go on from the source's, so that no inherited number is given again.
    writing.counters.turns = writing.counters.turns.max(source.counters.turns);
    writing.counters.items = writing.counters.items.max(source.counters.items);
    let author = TurnIdentity { no: writing.counters.turns, id: TurnId::new(name, 0) };
    writing.counters.turns += 1;
    writing.add_mutation(RowMutation::Head(SessionHead {
        // Above every generation of rows, as in the source.
        version: source.head.version + 1,
        parent: Some(ParentSession { session: from.clone(), offset }),
        created_at: writing.now,
        updated_at: writing.now,
        ..source.head.clone()
    }));
    let (generation, len) = find_history_list(source).unwrap_or_default();
    inherit_fields(writing, source, offset == len);
    let own = closings.len() as u64;
    if offset + own > 0 {
        let bytes = closings.iter().fold(bytes, |sum, it| sum + it.json_text().map_or(0, str::len) as u64);
        let value = FieldValue::List { generation, len: offset + own, bytes };
        writing.add_mutation(RowMutation::Field(FieldRow { name: HISTORY.to_owned(), value }));
    }
    // Also where nothing is copied: the first message in the fork may name a blob of the other session.
    inherit_list(writing, from, HISTORY, (generation, offset));
    write_fork_event(writing, &author, from, offset);
    close_open_calls(writing, &author, (generation, offset), &closings)
}

/// At the head all other fields are carried along. Their earlier values are not stored: before the head they begin
/// anew.
fn inherit_fields(writing: &mut BatchBuilder, source: &SessionRow, at_head: bool) {
    for field in source.fields.iter().filter(|field| at_head && field.name != HISTORY) {
        writing.add_mutation(RowMutation::Field(field.clone()));
        if let FieldValue::List { generation, len, .. } = field.value
            && len > 0
        {
            inherit_list(writing, &source.key.session, &field.name, (generation, len));
        }
    }
}

fn inherit_list(writing: &mut BatchBuilder, from: &SessionId, field: &str, (generation, len): (u64, u64)) {
    let (from, field) = (from.clone(), field.to_owned());
    writing.add_mutation(RowMutation::Inherit { from, field, generation, len });
}

fn write_fork_event(writing: &mut BatchBuilder, author: &TurnIdentity, from: &SessionId, offset: u64) {
    let body = serde_json::json!({ "parent": from, "offset": offset, "turn": author.id });
    let what = ChatEventKind::SessionForked { parent: from.clone(), offset };
    writing.add_event(author, None, Some(JsonDocument::from(&body)), what);
}

/// Closes the calls that are open at the cut, so that the next turn finds a history that a provider accepts (INV-6).
fn close_open_calls(
    writing: &mut BatchBuilder,
    author: &TurnIdentity,
    (generation, offset): (u64, u64),
    closings: &[Item],
) -> Result<(), Error> {
    let mut numbers = ItemNumbering::default();
    for (k, item) in (0..).zip(closings) {
        let placement = Some(ItemPlacement { field: HISTORY.to_owned(), generation, seq: offset + k });
        let no =
            writing.write_new_item(author, item, ItemMetadata { placement, side: None }, &mut numbers)?;
        let body = serde_json::json!({ "k": k, "turn": author.id });
        let (id, message) = (MessageId { turn: author.id.clone(), k }, decode_message(item)?);
        let what = ChatEventKind::MessageAppended { id, message, side: None };
        writing.add_event(author, Some(no), Some(JsonDocument::from(&body)), what);
    }
    Ok(())
}
