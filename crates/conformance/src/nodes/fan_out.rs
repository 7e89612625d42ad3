//! `fan_out:` (conformance-adapter §5.4, pipeline-utilities §9).

use crate::adapt;
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::inner_graphs::ITEM_FIELD;
use crate::middleware::{self, MiddlewareSpec};

use super::parse_name_pairs;

/// A fan-out as the fixture describes it.
#[derive(Debug, Clone)]
pub(crate) struct FanOutSpec {
    /// The subgraph of each instance.
    pub(crate) subgraph: String,
    /// One instance for each item of the parent's field, which goes into a field of the subgraph's.
    pub(crate) items: Option<(String, String)>,
    /// So many instances. That there are both, or neither, is the engine's to refuse.
    pub(crate) count: Option<NumberSource>,
    /// The subgraph's field that is collected, and the parent's that gets the list.
    pub(crate) collect: Option<String>,
    /// The parent's field that gets the list.
    pub(crate) target: Option<String>,
    /// Other fields: the parent's, the subgraph's.
    pub(crate) extra: Vec<(String, String)>,
    /// Further inputs of each instance: the subgraph's field, the parent's.
    pub(crate) inputs: Vec<(String, String)>,
    /// How many run at once.
    pub(crate) concurrency: FanOutConcurrency,
    /// Whether a failure is collected; it ends the fan-out otherwise.
    pub(crate) collects_errors: Option<bool>,
    /// Where collected failures go.
    pub(crate) errors: Option<String>,
    /// Whether nothing to do is no failure.
    pub(crate) empty_is_fine: Option<bool>,
    /// The field that gets the number of instances.
    pub(crate) count_field: Option<String>,
    /// Around each instance.
    pub(crate) middleware: Vec<MiddlewareSpec>,
    /// The case ends the process when this instance is done.
    pub(crate) abort_after: Option<u64>,
    /// What the fixture says instead of the fields, where it leaves them to the adapter (`inner_subgraph`).
    pub(crate) brief: Option<BriefFanOutSpec>,
}

/// A fan-out whose fields are left to the adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BriefFanOutSpec {
    /// Entries that each instance adds to the caller's metadata: the key, the entry of the item.
    pub(crate) augments: Vec<(String, String)>,
}

/// How many run at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FanOutConcurrency {
    /// As many as the engine says.
    Default,
    /// All of them.
    Unbounded,
    /// So many.
    Bounded(NumberSource),
}

/// A number that is there, or that is read from the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NumberSource {
    /// It is this.
    Is(i64),
    /// The value of a field.
    Field(String),
    /// It is how many chunks the list in a field makes; one at least.
    Chunks {
        /// The field.
        field: String,
        /// Items in a chunk.
        size: i64,
    },
}

impl FanOutSpec {
    /// Reads a fan-out.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(super) fn from_yaml_node(spot: LocatedNode) -> Outcome<Self> {
        let mut block = spot.into_map_reader()?;
        let inner = block.take_text("inner_subgraph")?;
        let augments = block.take_value("augment_metadata_from_field").map(parse_name_pairs).transpose()?;
        let mut spec = Self {
            subgraph: match &inner {
                Some(inner) => inner.clone(),
                None => block.take_required("subgraph")?.as_text()?.to_owned(),
            },
            brief: inner.map(|_| BriefFanOutSpec { augments: augments.clone().unwrap_or_default() }),
            items: None,
            count: block.take_value("count").map(|value| parse_number_source(&value)).transpose()?,
            collect: block.take_text("collect_field")?,
            target: block.take_text("target_field")?,
            extra: block.take_value("extra_outputs").map(parse_name_pairs).transpose()?.unwrap_or_default(),
            inputs: block.take_value("inputs").map(parse_name_pairs).transpose()?.unwrap_or_default(),
            concurrency: take_concurrency(&mut block)?,
            collects_errors: block
                .take_value("error_policy")
                .map(|value| parse_collects_errors(&value))
                .transpose()?,
            errors: block.take_text("errors_field")?,
            empty_is_fine: None,
            count_field: block.take_text("count_field")?,
            middleware: block
                .take_value("instance_middleware")
                .map(middleware::parse_middleware_list)
                .transpose()?
                .unwrap_or_default(),
            abort_after: None,
        };
        if let Some(it) = block.take_value("on_empty") {
            spec.empty_is_fine = Some(match it.as_text()? {
                "raise" => false,
                "noop" => true,
                other => {
                    return Err(CaseFailure::reader_error(&it.path, format!("unknown policy '{other}'")));
                }
            });
        }
        if let Some(it) = block.take_value("abort_after_instance") {
            spec.abort_after =
                Some(u64::try_from(it.as_integer()?).map_err(|_| it.unexpected_kind("an index"))?);
        }
        let mapping = adapt::take_item_mapping(&mut block)?;
        spec.inputs.extend(mapping.inputs);
        let mut outputs = mapping.outputs.into_iter();
        if spec.collect.is_none() {
            (spec.target, spec.collect) =
                outputs.next().map_or((spec.target, None), |(to, from)| (Some(to), Some(from)));
        }
        spec.extra.extend(outputs);
        if augments.is_some() && spec.brief.is_none() {
            return Err(CaseFailure::reader_error(block.path(), "only an inner_subgraph can augment"));
        }
        let made = spec.brief.as_ref().map(|_| ITEM_FIELD.to_owned());
        spec.items = take_items(&mut block, mapping.item.or(made))?;
        block.reject_remaining_keys()?;
        Ok(spec)
    }
}

/// Takes the field that has the items, and the field of the subgraph that gets one of them; `otherwise` where it is not
/// named.
fn take_items(block: &mut YamlMapReader, otherwise: Option<String>) -> Outcome<Option<(String, String)>> {
    let (items, item) = (block.take_text("items_field")?, block.take_text("item_field")?.or(otherwise));
    match (items, item) {
        (None, None) => Ok(None),
        (Some(items), Some(item)) => Ok(Some((items, item))),
        _ => Err(CaseFailure::reader_error(block.path(), "items_field and item_field go together")),
    }
}

/// Whether a policy collects errors.
///
/// # Errors
/// For an unknown policy.
pub(super) fn parse_collects_errors(spot: &LocatedNode) -> Outcome<bool> {
    match spot.as_text()? {
        "fail_fast" => Ok(false),
        "collect" => Ok(true),
        other => Err(CaseFailure::reader_error(&spot.path, format!("unknown policy '{other}'"))),
    }
}

/// `serial` is one at a time, whatever bound there is (conformance-adapter §5.4).
fn take_concurrency(block: &mut YamlMapReader) -> Outcome<FanOutConcurrency> {
    let bound = match block.take_value("concurrency") {
        None => FanOutConcurrency::Default,
        Some(it) if it.is_null() => FanOutConcurrency::Unbounded,
        Some(it) => FanOutConcurrency::Bounded(parse_number_source(&it)?),
    };
    let Some(mode) = block.take_value("concurrent_mode") else { return Ok(bound) };
    match mode.as_text()? {
        "serial" => Ok(FanOutConcurrency::Bounded(NumberSource::Is(1))),
        "concurrent" => Ok(bound),
        other => Err(CaseFailure::reader_error(&mode.path, format!("unknown mode '{other}'"))),
    }
}

fn parse_number_source(spot: &LocatedNode) -> Outcome<NumberSource> {
    if let Ok(it) = spot.as_integer() {
        return Ok(NumberSource::Is(it));
    }
    let mut block = spot.clone().into_map_reader()?;
    let callable = block.take_required("callable")?;
    let field = block.take_required("field")?.as_text()?.to_owned();
    let number = match callable.as_text()? {
        "state_field_read" => NumberSource::Field(field),
        "queue_chunk" => {
            let size = block.take_required("chunk_size")?;
            let chunk = size.as_integer()?;
            if chunk < 1 {
                return Err(size.unexpected_kind("a size"));
            }
            NumberSource::Chunks { field, size: chunk }
        }
        other => {
            return Err(CaseFailure::reader_error(&callable.path, format!("unknown callable '{other}'")));
        }
    };
    block.reject_remaining_keys()?;
    Ok(number)
}
