//! Adaptations of the runner to single fixtures. The engine is strict; every leniency of the runner is in this file,
//! with its reason.

use serde_json::{Map, Value};
use singletree::engine::{FieldContent, FieldShape, FieldSpec};
use singletree::llm::ChatMessage;

use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::nodes::pairs;
use crate::yaml::{YamlNode, YamlValue};

/// R20: graph-engine 020 routes by a field that no schema declares. Only fields that a `state_field_read` edge names
/// are declared in its place; any other undeclared name is the engine's to refuse.
#[must_use]
pub(crate) fn field_of_an_edge(name: &str) -> FieldSpec {
    FieldSpec::new(name, FieldShape::Any, FieldContent::from_json(Value::Null))
}

/// R21: pipeline-utilities 023 puts items into a field that the subgraph does not declare. Only fields that a fan-out
/// names for its items are declared in its place.
#[must_use]
pub(crate) fn field_of_items(name: &str) -> FieldSpec {
    field_of_an_edge(name)
}

/// R21: suspension 007 names where a fan-out collects to, and nothing to collect: then nothing is collected.
#[must_use]
pub(crate) fn collected<'a>(from: Option<&'a String>, to: Option<&'a String>) -> Option<(&'a str, &'a str)> {
    Some((from?, to?))
}

/// A body in a fan-out instance or a branch gives way once before it works: nothing would ever run at once if nothing
/// ever waited (pipeline-utilities 022).
pub(crate) async fn give_way() {
    tokio::task::yield_now().await;
}

/// R35: a middleware is a map with its `type`, or one with its type as the only key (pipeline-utilities 053). Returns
/// the type and the rest.
///
/// # Errors
/// When there is no type.
pub(crate) fn typed(mut block: YamlMapReader) -> Outcome<(LocatedNode, YamlMapReader)> {
    if let Some(kind) = block.take("type") {
        return Ok((kind, block));
    }
    let path = block.path().to_owned();
    let (kind, inner) =
        block.next().ok_or_else(|| CaseFailure::reader(path, "a middleware without a type"))?;
    block.finish()?;
    let name = YamlNode { line: inner.node.line, value: YamlValue::Str(kind) };
    Ok((LocatedNode::new(name, &inner.path), inner.fields()?))
}

/// R35: a checkpointer is named by a text, or by a map with `kind`. Returns its name and the rest of the map.
///
/// # Errors
/// When it has no name.
pub(crate) fn kind(spot: LocatedNode) -> Outcome<(LocatedNode, Option<YamlMapReader>)> {
    if spot.text().is_ok() {
        return Ok((spot, None));
    }
    let mut block = spot.fields()?;
    Ok((block.need("kind")?, Some(block)))
}

/// R35: the work of the instances that do not suspend is declared inside `conditional_suspend` or beside it
/// (suspension 006).
///
/// # Errors
/// When it stands nowhere.
pub(crate) fn other_indices(
    inside: &mut YamlMapReader,
    beside: Option<LocatedNode>,
) -> Outcome<YamlMapReader> {
    let path = inside.path().to_owned();
    let others = inside.take("on_other_indices").or(beside);
    others.ok_or_else(|| CaseFailure::reader(path, "says nothing of other indices"))?.fields()
}

/// pipeline-utilities 013 names the category of an error beside its message.
///
/// # Errors
/// When it is no text.
pub(crate) fn category_beside(block: &mut YamlMapReader) -> Outcome<Option<String>> {
    block.text("error_category")
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
pub(crate) fn item_mapping(block: &mut YamlMapReader) -> Outcome<ItemMapping> {
    let Some(spot) = block.take("mapping") else { return Ok(ItemMapping::default()) };
    let mut maps = spot.fields()?;
    let mut map = |key: &str| maps.take(key).map(pairs).transpose().map(Option::unwrap_or_default);
    let (inputs, outputs) = (map("inputs")?, map("outputs")?);
    maps.finish()?;
    let (items, inputs) = inputs.into_iter().partition::<Vec<_>, _>(|(_, from)| from == "<fan_out_item>");
    let item = items.into_iter().next().map(|(child, _)| child);
    Ok(ItemMapping { item, inputs, outputs })
}

/// R12: a text that names a declared field of the same graph is a read of that field, in `update` and `update_pure`.
#[must_use]
pub(crate) fn is_read(value: &Value, declares: impl Fn(&str) -> bool) -> Option<String> {
    value.as_str().filter(|text| declares(text)).map(str::to_owned)
}

/// Data of the runner about a final state, besides the fields of the state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunnerAnnotations<'a> {
    /// Fields in which callbacks of failure isolations note.
    pub(crate) noted: &'a Map<String, Value>,
    /// Fields that get records of failures.
    pub(crate) errors: &'a [String],
}

/// Keys of the engine's failure records that the fixtures do not name (R26: the record is implementation-defined).
const OUR_OWN: &[&str] = &["message", "cause"];

/// Adapts the final state to the fixture, where a fixture asserts content that the state itself does not hold.
/// Callbacks of failure isolations write into fields of the state (pipeline-utilities 062), which no callback can do
/// here. Failure records have keys besides those of the fixtures (R26). `FIELD_list_length` without a field of that
/// name (pipeline-utilities 052) stands for the list.
#[must_use]
pub(crate) fn final_state(wanted: &LocatedNode, state: Value, beside: RunnerAnnotations<'_>) -> Value {
    let (Value::Object(mut state), YamlValue::Map(entries)) = (state.clone(), &wanted.node.value) else {
        return state;
    };
    for (field, value) in beside.noted {
        if state.contains_key(field) {
            state.insert(field.clone(), value.clone());
        }
    }
    for field in beside.errors {
        let named = wanted.node.get(field).map(YamlNode::to_json).unwrap_or_default();
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
pub(crate) fn container(text: &str) -> Option<(&str, &str)> {
    [('<', '>'), ('[', ']')].into_iter().find_map(|(open, close)| {
        let (outer, rest) = text.split_once(open)?;
        Some((outer, rest.strip_suffix(close)?)).filter(|_| !outer.contains(['<', '[']))
    })
}

/// R35: a store is named by a text, or by a map with `type` or `kind`, and faults that it has.
///
/// # Errors
/// For another store, or another fault.
pub(crate) fn store(spot: LocatedNode) -> Outcome<SessionStoreSpec> {
    if let Ok(name) = spot.text() {
        return in_memory(name, &spot).map(|()| SessionStoreSpec::default());
    }
    let mut block = spot.fields()?;
    let kind = match block.take("type") {
        Some(kind) => kind,
        None => block.need("kind")?,
    };
    in_memory(kind.text()?, &kind)?;
    let mut spec = SessionStoreSpec::default();
    if let Some(behavior) = block.take("behavior") {
        let mut behavior = behavior.fields()?;
        spec.load_raises = fault(&mut behavior, "load_raises", &[("session_load_failed", ())])?.is_some();
        let saves = [
            ("session_save_failed", SaveFaultKind::Broken),
            ("session_write_conflict", SaveFaultKind::Conflict),
        ];
        spec.save_raises = fault(&mut behavior, "save_raises", &saves)?;
        behavior.finish()?;
    }
    block.finish()?;
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
pub(crate) fn paused_store(spot: LocatedNode) -> Outcome<bool> {
    let mut block = spot.fields()?;
    let kind = block.need("type")?;
    in_memory(kind.text()?, &kind)?;
    let mut behavior = block.need("behavior")?.fields()?;
    let raises = fault(&mut behavior, "save_raises", &[("suspension_persistence_failed", ())])?;
    behavior.finish()?;
    block.finish()?;
    Ok(raises.is_some())
}

fn in_memory(name: &str, spot: &LocatedNode) -> Outcome<()> {
    match name {
        "in_memory" => Ok(()),
        other => Err(CaseFailure::reader(&spot.path, format!("unknown store '{other}'"))),
    }
}

fn fault<T: Copy>(block: &mut YamlMapReader, key: &str, known: &[(&str, T)]) -> Outcome<Option<T>> {
    let Some(it) = block.take(key) else { return Ok(None) };
    let name = it.text()?;
    match known.iter().find(|(known, _)| *known == name) {
        Some((_, fault)) => Ok(Some(*fault)),
        None => Err(CaseFailure::reader(&it.path, format!("unknown fault '{name}'"))),
    }
}

/// Takes the name of the signal coordinator. Suspending cases that name none get one all the same (harness-chat 005).
///
/// # Errors
/// For another one than that in memory.
pub(crate) fn coordinator(harness: &mut YamlMapReader) -> Outcome<()> {
    match harness.take("signal_coordinator") {
        None => Ok(()),
        Some(it) if it.text()? == "in_memory" => Ok(()),
        Some(it) => Err(CaseFailure::reader(&it.path, format!("unknown coordinator '{}'", it.text()?))),
    }
}

/// Takes the extension `dev.singletree.subscribe_raises`.
///
/// # Errors
/// For another fault.
pub(crate) fn subscribe_raises(harness: &mut YamlMapReader) -> Outcome<bool> {
    let known = [("harness_signal_subscription_failed", ())];
    Ok(fault(harness, "dev.singletree.subscribe_raises", &known)?.is_some())
}

/// R16: the harness suite names a checkpointer only for the paused record, which the paused store keeps. Elsewhere
/// the key is refused.
///
/// # Errors
/// For another one than that in memory.
pub(crate) fn checkpointer_for_pauses(block: &mut YamlMapReader) -> Outcome<()> {
    match block.take("checkpointer") {
        None => Ok(()),
        Some(it) => in_memory(it.text()?, &it),
    }
}

/// pipeline-utilities 055 passes a state of a type that extends the declared type and claims another version. The
/// runner passes fields of the declared schema, which have no version of their own; the version of each save is
/// asserted all the same.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(crate) fn claimed_version(block: &mut YamlMapReader) -> Outcome<()> {
    let Some(it) = block.take("runtime_state_subclass") else { return Ok(()) };
    let mut it = it.fields()?;
    it.need("schema_version")?.text()?;
    it.finish()
}

/// Returns the fields of a payload that a transport takes as the message: those that the graph declares. harness 011
/// sends a field that its graph does not declare; the engine would refuse it.
#[must_use]
pub(crate) fn message_fields(
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
pub(crate) fn message(spot: &LocatedNode) -> Outcome<ChatMessage> {
    serde_json::from_value(spot.node.to_json())
        .map_err(|error| CaseFailure::build(&spot.path, error.to_string()))
}
