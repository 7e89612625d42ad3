//! Adaptations of the runner to single fixtures. The engine is strict; every leniency of the runner is in this module,
//! with its reason.

mod observability;

use serde_json::{Map, Value};
use singletree::engine::{FieldContent, FieldShape, FieldSpec};
use singletree::llm::ChatMessage;

use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::nodes::parse_name_pairs;
use crate::yaml::{YamlNode, YamlValue};

pub(crate) use observability::{
    SYNTHETIC_BASE64, UNSAID_MESSAGE, accepts_any_value, bound_model_name, expand_synthetic_content,
    harness_parameter, is_complete_span_list, is_transient_marker, names_provider_category, offered_tools,
    runs_before_model_call, states_ending_by_span,
};

/// R20: graph-engine 020 routes by a field that no schema declares. Only fields that a `state_field_read` edge names
/// are declared in its place; any other undeclared name is the engine's to refuse.
#[must_use]
pub(crate) fn edge_field_spec(name: &str) -> FieldSpec {
    FieldSpec::new(name, FieldShape::Any, FieldContent::from_json(Value::Null))
}

/// R21: pipeline-utilities 023 puts items into a field that the subgraph does not declare. Only fields that a fan-out
/// names for its items are declared in its place.
#[must_use]
pub(crate) fn item_field_spec(name: &str) -> FieldSpec {
    edge_field_spec(name)
}

/// R21: suspension 007 names where a fan-out collects to, and nothing to collect: then nothing is collected.
#[must_use]
pub(crate) fn collection_fields<'a>(
    from: Option<&'a String>,
    to: Option<&'a String>,
) -> Option<(&'a str, &'a str)> {
    Some((from?, to?))
}

/// A body in a fan-out instance or a branch gives way once before it works: nothing would ever run at once if nothing
/// ever waited (pipeline-utilities 022).
pub(crate) async fn yield_before_work() {
    tokio::task::yield_now().await;
}

/// R35: a middleware is a map with its `type`, or one with its type as the only key (pipeline-utilities 053). Returns
/// the type and the rest.
///
/// # Errors
/// When there is no type.
pub(crate) fn split_middleware_type(mut block: YamlMapReader) -> Outcome<(LocatedNode, YamlMapReader)> {
    if let Some(kind) = block.take_value("type") {
        return Ok((kind, block));
    }
    let path = block.path().to_owned();
    let (kind, inner) = block
        .take_next_entry()
        .ok_or_else(|| CaseFailure::reader_error(path, "a middleware without a type"))?;
    block.reject_remaining_keys()?;
    let name = YamlNode { line: inner.node.line, value: YamlValue::Str(kind) };
    Ok((LocatedNode::new(name, &inner.path), inner.into_map_reader()?))
}

/// R35: a checkpointer is named by a text, or by a map with `kind`. Returns its name and the rest of the map.
///
/// # Errors
/// When it has no name.
pub(crate) fn split_checkpointer_kind(spot: LocatedNode) -> Outcome<(LocatedNode, Option<YamlMapReader>)> {
    if spot.as_text().is_ok() {
        return Ok((spot, None));
    }
    let mut block = spot.into_map_reader()?;
    Ok((block.take_required("kind")?, Some(block)))
}

/// R35: the work of the instances that do not suspend is declared inside `conditional_suspend` or beside it
/// (suspension 006).
///
/// # Errors
/// When it stands nowhere.
pub(crate) fn take_other_indices(
    inside: &mut YamlMapReader,
    beside: Option<LocatedNode>,
) -> Outcome<YamlMapReader> {
    let path = inside.path().to_owned();
    let others = inside.take_value("on_other_indices").or(beside);
    others.ok_or_else(|| CaseFailure::reader_error(path, "says nothing of other indices"))?.into_map_reader()
}

/// pipeline-utilities 013 names the category of an error beside its message.
///
/// # Errors
/// When it is no text.
pub(crate) fn take_error_category(block: &mut YamlMapReader) -> Outcome<Option<String>> {
    block.take_text("error_category")
}

/// A projection in which `<fan_out_item>` stands for the item.
#[derive(Debug, Default)]
pub(crate) struct ItemMapping {
    /// The subgraph's field that gets the item.
    pub(crate) item: Option<String>,
    /// The others: the subgraph's field, the parent's.
    pub(crate) inputs: Vec<(String, String)>,
    /// Pairs of the parent's field and the subgraph's field. The first pair is collected when no other collection is
    /// declared.
    pub(crate) outputs: Vec<(String, String)>,
}

/// sessions 011 writes a fan-out's projection as the `mapping` of a subgraph.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(crate) fn take_item_mapping(block: &mut YamlMapReader) -> Outcome<ItemMapping> {
    let Some(spot) = block.take_value("mapping") else { return Ok(ItemMapping::default()) };
    let mut maps = spot.into_map_reader()?;
    let mut map =
        |key: &str| maps.take_value(key).map(parse_name_pairs).transpose().map(Option::unwrap_or_default);
    let (inputs, outputs) = (map("inputs")?, map("outputs")?);
    maps.reject_remaining_keys()?;
    let (items, inputs) = inputs.into_iter().partition::<Vec<_>, _>(|(_, from)| from == "<fan_out_item>");
    let item = items.into_iter().next().map(|(child, _)| child);
    Ok(ItemMapping { item, inputs, outputs })
}

/// R12: a text that names a declared field of the same graph is a read of that field, in `update` and `update_pure`.
#[must_use]
pub(crate) fn referenced_field(value: &Value, declares: impl Fn(&str) -> bool) -> Option<String> {
    value.as_str().filter(|text| declares(text)).map(str::to_owned)
}

/// Data of the runner about a final state, besides the fields of the state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunnerAnnotations<'a> {
    /// Fields in which callbacks of failure isolations note.
    pub(crate) noted: &'a Map<String, Value>,
    /// Fields that get records of failures.
    pub(crate) errors: &'a [String],
    /// Fields that no fixture declares.
    pub(crate) made: &'a [String],
}

/// Keys of the engine's failure records that the fixtures do not name (R26: the record is implementation-defined).
const OUR_OWN: &[&str] = &["message", "cause"];

/// Adapts the final state to the fixture, where a fixture asserts content that the state itself does not hold.
/// Callbacks of failure isolations write into fields of the state (pipeline-utilities 062), which no callback can do
/// here. Failure records have keys besides those of the fixtures (R26). `FIELD_list_length` without a field of that
/// name (pipeline-utilities 052) stands for the list.
#[must_use]
pub(crate) fn align_final_state(wanted: &LocatedNode, state: Value, beside: RunnerAnnotations<'_>) -> Value {
    let (Value::Object(mut state), YamlValue::Map(entries)) = (state.clone(), &wanted.node.value) else {
        return state;
    };
    state.retain(|field, _| !beside.made.contains(field) || wanted.node.get_entry(field).is_some());
    for (field, value) in beside.noted {
        if state.contains_key(field) {
            state.insert(field.clone(), value.clone());
        }
    }
    for field in beside.errors {
        let named = wanted.node.get_entry(field).map(YamlNode::to_json).unwrap_or_default();
        let records = state.get_mut(field).and_then(Value::as_array_mut);
        for (record, named) in records.into_iter().flatten().zip(named.as_array().into_iter().flatten()) {
            if let (Some(record), Some(named)) = (record.as_object_mut(), named.as_object()) {
                record.retain(|key, _| named.contains_key(key) || !OUR_OWN.contains(&key.as_str()));
            }
        }
    }
    let virtuals: Vec<&String> =
        entries.iter().map(|(name, _)| name).filter(|name| !state.contains_key(*name)).collect();
    for name in virtuals {
        let Some(field) = name.strip_suffix("_list_length") else { continue };
        if let Some(Value::Array(items)) = state.remove(field) {
            state.insert(name.clone(), items.len().into());
        }
    }
    Value::Object(state)
}

/// Types are written `list<T>`; harness-chat writes `list[T]`.
#[must_use]
pub(crate) fn split_container_type(text: &str) -> Option<(&str, &str)> {
    [('<', '>'), ('[', ']')].into_iter().find_map(|(open, close)| {
        let (outer, rest) = text.split_once(open)?;
        Some((outer, rest.strip_suffix(close)?)).filter(|_| !outer.contains(['<', '[']))
    })
}

/// R35: a store is named by a text, or by a map with `type` or `kind`, and faults that it has.
///
/// # Errors
/// For another store, or another fault.
pub(crate) fn parse_session_store(spot: LocatedNode) -> Outcome<SessionStoreSpec> {
    if let Ok(name) = spot.as_text() {
        return require_in_memory_store(name, &spot).map(|()| SessionStoreSpec::default());
    }
    let mut block = spot.into_map_reader()?;
    let kind = match block.take_value("type") {
        Some(kind) => kind,
        None => block.take_required("kind")?,
    };
    require_in_memory_store(kind.as_text()?, &kind)?;
    let mut spec = SessionStoreSpec::default();
    if let Some(behavior) = block.take_value("behavior") {
        let mut behavior = behavior.into_map_reader()?;
        spec.load_raises =
            take_fault_kind(&mut behavior, "load_raises", &[("session_load_failed", ())])?.is_some();
        let saves = [
            ("session_save_failed", SaveFaultKind::Broken),
            ("session_write_conflict", SaveFaultKind::Conflict),
        ];
        spec.save_raises = take_fault_kind(&mut behavior, "save_raises", &saves)?;
        behavior.reject_remaining_keys()?;
    }
    block.reject_remaining_keys()?;
    Ok(spec)
}

/// The behaviour of a session store as the fixture declares it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SessionStoreSpec {
    /// Whether every load fails.
    pub(crate) load_raises: bool,
    /// How every save fails, when it does.
    pub(crate) save_raises: Option<SaveFaultKind>,
}

/// How a save fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SaveFaultKind {
    /// The store does not answer.
    Broken,
    /// Somebody else saved first (sessions §8.2).
    Conflict,
}

/// Reads the extension `dev.singletree.paused_store`: whether every save of a paused record fails. Otherwise as
/// `store`.
///
/// # Errors
/// For another store, or another fault.
pub(crate) fn parse_paused_store(spot: LocatedNode) -> Outcome<bool> {
    let mut block = spot.into_map_reader()?;
    let kind = block.take_required("type")?;
    require_in_memory_store(kind.as_text()?, &kind)?;
    let mut behavior = block.take_required("behavior")?.into_map_reader()?;
    let raises = take_fault_kind(&mut behavior, "save_raises", &[("suspension_persistence_failed", ())])?;
    behavior.reject_remaining_keys()?;
    block.reject_remaining_keys()?;
    Ok(raises.is_some())
}

fn require_in_memory_store(name: &str, spot: &LocatedNode) -> Outcome<()> {
    match name {
        "in_memory" => Ok(()),
        other => Err(CaseFailure::reader_error(&spot.path, format!("unknown store '{other}'"))),
    }
}

fn take_fault_kind<T: Copy>(block: &mut YamlMapReader, key: &str, known: &[(&str, T)]) -> Outcome<Option<T>> {
    let Some(it) = block.take_value(key) else { return Ok(None) };
    let name = it.as_text()?;
    match known.iter().find(|(known, _)| *known == name) {
        Some((_, fault)) => Ok(Some(*fault)),
        None => Err(CaseFailure::reader_error(&it.path, format!("unknown fault '{name}'"))),
    }
}

/// Takes the name of the signal coordinator. Suspending cases that name none get one all the same (harness-chat 005).
///
/// # Errors
/// For another one than that in memory.
pub(crate) fn take_signal_coordinator(harness: &mut YamlMapReader) -> Outcome<()> {
    match harness.take_value("signal_coordinator") {
        None => Ok(()),
        Some(it) if it.as_text()? == "in_memory" => Ok(()),
        Some(it) => {
            Err(CaseFailure::reader_error(&it.path, format!("unknown coordinator '{}'", it.as_text()?)))
        }
    }
}

/// Takes the extension `dev.singletree.subscribe_raises`.
///
/// # Errors
/// For another fault.
pub(crate) fn take_subscribe_raises(harness: &mut YamlMapReader) -> Outcome<bool> {
    let known = [("harness_signal_subscription_failed", ())];
    Ok(take_fault_kind(harness, "dev.singletree.subscribe_raises", &known)?.is_some())
}

/// R16: the harness suite names a checkpointer only for the paused record, which the paused store keeps. Elsewhere
/// the key is refused.
///
/// # Errors
/// For another one than that in memory.
pub(crate) fn take_checkpointer_for_pauses(block: &mut YamlMapReader) -> Outcome<()> {
    match block.take_value("checkpointer") {
        None => Ok(()),
        Some(it) => require_in_memory_store(it.as_text()?, &it),
    }
}

/// pipeline-utilities 055 passes a state of a type that extends the declared type and claims another version. The
/// runner passes fields of the declared schema, which have no version of their own; the version of each save is
/// asserted all the same.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(crate) fn take_claimed_version(block: &mut YamlMapReader) -> Outcome<()> {
    let Some(it) = block.take_value("runtime_state_subclass") else { return Ok(()) };
    let mut it = it.into_map_reader()?;
    it.take_required("schema_version")?.as_text()?;
    it.reject_remaining_keys()
}

/// Returns the fields of a payload that a transport takes as the message: those that the graph declares. harness 011
/// sends a field that its graph does not declare; the engine would refuse it.
#[must_use]
pub(crate) fn select_message_fields(
    payload: Map<String, Value>,
    declares: impl Fn(&str) -> bool,
) -> Map<String, Value> {
    payload.into_iter().filter(|(name, _)| declares(name)).collect()
}

/// Makes a chat message of the fixture's value and does not check whether the message is valid: the harness checks
/// that (harness-chat §3.1).
///
/// # Errors
/// When there is no such type of message at all.
pub(crate) fn parse_chat_message(spot: &LocatedNode) -> Outcome<ChatMessage> {
    serde_json::from_value(spot.node.to_json())
        .map_err(|error| CaseFailure::build_error(&spot.path, error.to_string()))
}
