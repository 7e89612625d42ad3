//! A session is made of a document that was exported. The document is input: its parts have the limits of a session's.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use singletree_durable::{
    BatchPrecondition, FieldRow, FieldValue, ItemPlacement, JsonDocument, ListItemRow, RowMutation,
    SessionHead, SubjectId, Timestamp,
};
use singletree_llm::ChatMessage;

use super::create::check_session_absent;
use crate::Error;
use crate::batch::BatchBuilder;
use crate::budget::EffectiveBudget;
use crate::history::HISTORY;
use crate::policy::TurnPromptPolicy;
use crate::queue::CallerHandle;
use crate::state::SessionState;

/// The content of an exported session.
#[derive(Debug, Clone)]
pub struct ImportedSession {
    /// The agent that answers in it.
    pub agent: String,
    /// The digest of that agent's graph.
    pub graph: String,
    /// The version of the state's schema.
    pub schema_version: String,
    /// Which texts reach the model.
    pub policy: TurnPromptPolicy,
    /// The time at which it was made.
    pub created_at: Timestamp,
    /// On whose behalf it is made here.
    pub subject: Option<SubjectId>,
    /// The fields of the state that are values.
    pub values: Map<String, Value>,
    /// The fields that are lists: each item with its side record.
    pub lists: BTreeMap<String, Vec<(Value, Option<Value>)>>,
}

/// Makes a session with this content. Its rows belong to a turn number that no turn has.
///
/// # Errors
/// `chat_session_exists`; `chat_budget_exhausted` for a part that exceeds a limit; `chat_message_shape_invalid`.
pub fn import_session<H: CallerHandle>(
    state: &mut SessionState<H>,
    writing: &mut BatchBuilder,
    imported: ImportedSession,
    bounds: &EffectiveBudget,
) -> Result<(), Error> {
    check_session_absent(state, writing)?;
    writing.require(BatchPrecondition::SessionAbsent);
    writing.add_mutation(RowMutation::Head(SessionHead {
        agent: imported.agent,
        graph: imported.graph,
        schema_version: imported.schema_version,
        version: 1,
        prompt_policy: imported.policy.as_str().into(),
        parent: None,
        subject: imported.subject,
        created_at: imported.created_at,
        updated_at: writing.now,
    }));
    let turn = writing.counters.turns;
    writing.counters.turns += 1;
    for (name, value) in imported.values {
        let value = JsonDocument::from(&value);
        bounds.check_field(value.as_str())?;
        writing.add_mutation(RowMutation::Field(FieldRow { name, value: FieldValue::Value(value) }));
    }
    for (name, items) in imported.lists {
        write_imported_list(writing, (name, turn), items, bounds)?;
    }
    state.begin_session(writing.find_written_head());
    Ok(())
}

fn write_imported_list(
    writing: &mut BatchBuilder,
    (name, turn): (String, u64),
    items: Vec<(Value, Option<Value>)>,
    bounds: &EffectiveBudget,
) -> Result<(), Error> {
    let (len, mut bytes) = (items.len() as u64, 0);
    for (seq, (body, side)) in (0..).zip(items) {
        if name == HISTORY {
            let checked = ChatMessage::from_json(body.clone());
            checked.map_err(|error| Error::MessageShape { why: format!("message {seq}: {error}") })?;
        }
        let placement = Some(ItemPlacement { field: name.clone(), generation: 0, seq });
        let (body, side) = (JsonDocument::from(&body), side.as_ref().map(JsonDocument::from));
        bounds.check_item(body.as_str())?;
        side.as_ref().map_or(Ok(()), |side| bounds.check_item(side.as_str()))?;
        bytes += body.as_str().len() as u64;
        let no = writing.counters.items;
        writing.counters.items += 1;
        writing.add_mutation(RowMutation::Item(ListItemRow { no, turn, placement, body, side }));
    }
    if name == HISTORY {
        bounds.check_history_size(len, bytes)?;
    }
    bounds.check_list_size(&name, len, bytes)?;
    let value = FieldValue::List { generation: 0, len, bytes };
    writing.add_mutation(RowMutation::Field(FieldRow { name, value }));
    Ok(())
}
