//! `state:` and its fields (conformance-adapter §5.2).

use std::sync::Arc;

use serde_json::{Map, Value};
use singletree::engine::{FieldContent, FieldShape, FieldSpec, KeyExtractor, Reducer, StateSchema};

use crate::adapt;
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::keep_larger::{self, KeepLarger};

/// A declared state.
#[derive(Debug, Clone)]
pub(crate) struct StateSchemaSpec {
    fields: Vec<FieldSpec>,
    version: Option<String>,
    /// The fields that the adapter declares.
    made_fields: Vec<String>,
}

impl StateSchemaSpec {
    /// Reads a state block.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(crate) fn from_yaml_node(spot: LocatedNode) -> Outcome<Self> {
        let mut block = spot.into_map_reader()?;
        let version = block.take_text("schema_version")?;
        let mut declared = block.take_required("fields")?.into_map_reader()?;
        let mut fields = Vec::new();
        while let Some((name, field)) = declared.take_next_entry() {
            fields.push(parse_field(name, field.into_map_reader()?)?);
        }
        block.reject_remaining_keys()?;
        Ok(Self { fields, version, made_fields: Vec::new() })
    }

    /// Tells whether a field is declared.
    #[must_use]
    pub(crate) fn declares_field(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.name() == name)
    }

    /// Returns the fields that only the adapter declares.
    #[must_use]
    pub(crate) fn made_fields(&self) -> &[String] {
        &self.made_fields
    }

    /// Makes a state without fields.
    #[must_use]
    pub(crate) fn empty() -> Self {
        Self { fields: Vec::new(), version: None, made_fields: Vec::new() }
    }

    /// Declares a field, in the place of an earlier declaration; its default is the value.
    pub(crate) fn declare_field(&mut self, name: &str, shape: FieldShape, default: Value) {
        if !self.declares_field(name) {
            self.made_fields.push(name.to_owned());
        }
        self.fields.retain(|field| field.name() != name);
        self.fields.push(FieldSpec::new(name.to_owned(), shape, FieldContent::from_json(default)));
    }

    /// Returns the names of the fields.
    pub(crate) fn field_names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(FieldSpec::name)
    }

    /// Returns the version, when one is declared.
    #[must_use]
    pub(crate) fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Makes the schema, with fields that only the fixture's edges and fan-outs know.
    #[must_use]
    pub(crate) fn build_schema(&self, name: &str, of_edges: &[String], of_items: &[String]) -> StateSchema {
        let undeclared = |it: &&String| !self.declares_field(it);
        let edges = of_edges.iter().filter(undeclared).map(|edge| adapt::edge_field_spec(edge));
        let mut items: Vec<&String> = of_items.iter().filter(undeclared).collect();
        items.sort_unstable();
        items.dedup();
        let extra = edges.chain(items.into_iter().map(|item| adapt::item_field_spec(item)));
        let schema = StateSchema::new(name, self.fields.iter().cloned().chain(extra).collect());
        match &self.version {
            Some(version) => schema.with_version(version),
            None => schema,
        }
    }
}

fn parse_field(name: String, mut block: YamlMapReader) -> Outcome<FieldSpec> {
    let kind = block.take_required("type")?;
    let default = block.take_value("default").map(|value| value.node.to_json());
    let declared = match adapt::accepts_any_value(kind.as_text()?, default.as_ref()) {
        true => Some(FieldShape::Any),
        false => parse_field_shape(kind.as_text()?),
    };
    let shape = declared.ok_or_else(|| {
        CaseFailure::reader_error(
            &kind.path,
            format!("unknown type '{}'", kind.as_text().unwrap_or_default()),
        )
    })?;
    let required = block.take_value("required").map(|value| value.as_bool()).transpose()?.unwrap_or(false);
    let mut spec = match default {
        Some(default) if !required => FieldSpec::new(name, shape, FieldContent::from_json(default)),
        Some(_) => return Err(CaseFailure::reader_error(block.path(), "a required field has no default")),
        None => FieldSpec::required(name, shape),
    };
    // Case `conflicting_reducers` declares two reducers: the engine refuses them.
    for key in ["reducer", "alt_reducer"] {
        if let Some(declared) = block.take_value(key) {
            spec = spec.reducer(parse_reducer(declared)?);
        }
    }
    block.reject_remaining_keys()?;
    Ok(spec)
}

/// Reads a type: primitives, containers, and barewords for records that the fixture does not look into.
fn parse_field_shape(text: &str) -> Option<FieldShape> {
    let text = text.trim();
    if let Some((outer, inner)) = adapt::split_container_type(text) {
        return match outer {
            "list" => Some(parse_field_shape(inner)?.list()),
            "dict" => {
                let (key, value) = inner.split_once(',')?;
                matches!(parse_field_shape(key)?, FieldShape::Str)
                    .then(|| parse_field_shape(value).map(|shape| FieldShape::Dict(Box::new(shape))))?
            }
            _ => None,
        };
    }
    Some(match text {
        "string" | "str" => FieldShape::Str,
        "int" => FieldShape::Int,
        "float" => FieldShape::Float,
        "bool" => FieldShape::Bool,
        "any" => FieldShape::Any,
        "list" => FieldShape::Any.list(),
        "dict" => FieldShape::Dict(Box::new(FieldShape::Any)),
        name if name.starts_with(|it: char| it.is_ascii_alphabetic())
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') =>
        {
            FieldShape::Record(name.to_owned())
        }
        _ => return None,
    })
}

fn parse_reducer(spot: LocatedNode) -> Outcome<Reducer> {
    if let Ok(name) = spot.as_text() {
        return Ok(match name {
            "last_write_wins" => Reducer::LastWriteWins,
            "append" => Reducer::Append,
            "merge" => Reducer::Merge,
            "concat_flatten" => Reducer::ConcatFlatten,
            "merge_all" => Reducer::MergeAll,
            keep_larger::NAME => Reducer::Custom(Arc::new(KeepLarger)),
            other => return Err(CaseFailure::reader_error(&spot.path, format!("unknown reducer '{other}'"))),
        });
    }
    let mut block = spot.into_map_reader()?;
    let path = block.path().to_owned();
    let (name, kwargs) = block
        .take_next_entry()
        .ok_or_else(|| CaseFailure::reader_error(&path, "a reducer without a name"))?;
    block.reject_remaining_keys()?;
    let mut kwargs = kwargs.into_map_reader()?;
    let reducer = match name.as_str() {
        "bounded_append" => Reducer::BoundedAppend(kwargs.take_required("max_len")?.as_integer()?),
        "dedupe_append" => Reducer::DedupeAppend(take_key_extractor(&mut kwargs)?),
        "merge_by_key" => Reducer::MergeByKey(take_key_extractor(&mut kwargs)?),
        other => return Err(CaseFailure::reader_error(path, format!("unknown reducer '{other}'"))),
    };
    kwargs.reject_remaining_keys()?;
    Ok(reducer)
}

fn take_key_extractor(kwargs: &mut YamlMapReader) -> Outcome<Option<KeyExtractor>> {
    match kwargs.take_value("key") {
        Some(it) if !it.is_null() => Ok(Some(KeyExtractor::field(it.as_text()?))),
        Some(_) | None => Ok(None),
    }
}

/// Reads a map of literal values.
///
/// # Errors
/// When it is no map.
pub(crate) fn parse_literals(spot: LocatedNode) -> Outcome<Map<String, Value>> {
    match spot.node.to_json() {
        Value::Object(map) => Ok(map),
        _ => Err(spot.unexpected_kind("a map")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_as_the_specification_lists_them() {
        for (text, read) in [
            ("list<list<int>>", "list<list<int>>"),
            ("dict<string,string>", "dict<string,string>"),
            ("list<dict<string, int>>", "list<dict<string,int>>"),
            ("list[ChatMessage]", "list<ChatMessage>"),
            ("list", "list<any>"),
            ("str", "string"),
        ] {
            assert_eq!(parse_field_shape(text).unwrap().to_string(), read);
        }
        for wrong in ["list<", "dict<int,string>", "set<int>", "", "in t", "list<int"] {
            assert_eq!(parse_field_shape(wrong), None, "{wrong}");
        }
    }
}
