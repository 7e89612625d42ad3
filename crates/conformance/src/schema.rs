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
}

impl StateSchemaSpec {
    /// Reads a state block.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(crate) fn read(spot: LocatedNode) -> Outcome<Self> {
        let mut block = spot.fields()?;
        let version = block.text("schema_version")?;
        let mut declared = block.need("fields")?.fields()?;
        let mut fields = Vec::new();
        while let Some((name, field)) = declared.next() {
            fields.push(read_field(name, field.fields()?)?);
        }
        block.finish()?;
        Ok(Self { fields, version })
    }

    /// Tells whether a field is declared.
    #[must_use]
    pub(crate) fn declares(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.name() == name)
    }

    /// Returns the names of the fields.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(FieldSpec::name)
    }

    /// Returns the version, when one is declared.
    #[must_use]
    pub(crate) fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Makes the schema, with fields that only the fixture's edges and fan-outs know.
    #[must_use]
    pub(crate) fn schema(&self, name: &str, of_edges: &[String], of_items: &[String]) -> StateSchema {
        let undeclared = |it: &&String| !self.declares(it);
        let edges = of_edges.iter().filter(undeclared).map(|edge| adapt::field_of_an_edge(edge));
        let mut items: Vec<&String> = of_items.iter().filter(undeclared).collect();
        items.sort_unstable();
        items.dedup();
        let extra = edges.chain(items.into_iter().map(|item| adapt::field_of_items(item)));
        let schema = StateSchema::new(name, self.fields.iter().cloned().chain(extra).collect());
        match &self.version {
            Some(version) => schema.with_version(version),
            None => schema,
        }
    }
}

fn read_field(name: String, mut block: YamlMapReader) -> Outcome<FieldSpec> {
    let kind = block.need("type")?;
    let shape = shape(kind.text()?).ok_or_else(|| {
        CaseFailure::reader(&kind.path, format!("unknown type '{}'", kind.text().unwrap_or_default()))
    })?;
    let required = block.take("required").map(|value| value.truth()).transpose()?.unwrap_or(false);
    let default = block.take("default").map(|value| value.node.to_json());
    let mut spec = match default {
        Some(default) if !required => FieldSpec::new(name, shape, FieldContent::from_json(default)),
        Some(_) => return Err(CaseFailure::reader(block.path(), "a required field has no default")),
        None => FieldSpec::required(name, shape),
    };
    // Case `conflicting_reducers` declares two reducers: the engine refuses them.
    for key in ["reducer", "alt_reducer"] {
        if let Some(declared) = block.take(key) {
            spec = spec.reducer(reducer(declared)?);
        }
    }
    block.finish()?;
    Ok(spec)
}

/// Reads a type: primitives, containers, and barewords for records that the fixture does not look into.
fn shape(text: &str) -> Option<FieldShape> {
    let text = text.trim();
    if let Some((outer, inner)) = adapt::container(text) {
        return match outer {
            "list" => Some(shape(inner)?.list()),
            "dict" => {
                let (key, value) = inner.split_once(',')?;
                matches!(shape(key)?, FieldShape::Str)
                    .then(|| shape(value).map(|shape| FieldShape::Dict(Box::new(shape))))?
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

fn reducer(spot: LocatedNode) -> Outcome<Reducer> {
    if let Ok(name) = spot.text() {
        return Ok(match name {
            "last_write_wins" => Reducer::LastWriteWins,
            "append" => Reducer::Append,
            "merge" => Reducer::Merge,
            "concat_flatten" => Reducer::ConcatFlatten,
            "merge_all" => Reducer::MergeAll,
            keep_larger::NAME => Reducer::Custom(Arc::new(KeepLarger)),
            other => return Err(CaseFailure::reader(&spot.path, format!("unknown reducer '{other}'"))),
        });
    }
    let mut block = spot.fields()?;
    let path = block.path().to_owned();
    let (name, kwargs) =
        block.next().ok_or_else(|| CaseFailure::reader(&path, "a reducer without a name"))?;
    block.finish()?;
    let mut kwargs = kwargs.fields()?;
    let reducer = match name.as_str() {
        "bounded_append" => Reducer::BoundedAppend(kwargs.need("max_len")?.whole()?),
        "dedupe_append" => Reducer::DedupeAppend(key(&mut kwargs)?),
        "merge_by_key" => Reducer::MergeByKey(key(&mut kwargs)?),
        other => return Err(CaseFailure::reader(path, format!("unknown reducer '{other}'"))),
    };
    kwargs.finish()?;
    Ok(reducer)
}

fn key(kwargs: &mut YamlMapReader) -> Outcome<Option<KeyExtractor>> {
    match kwargs.take("key") {
        Some(it) if !it.is_null() => Ok(Some(KeyExtractor::field(it.text()?))),
        Some(_) | None => Ok(None),
    }
}

/// Reads a map of literal values.
///
/// # Errors
/// When it is no map.
pub(crate) fn literals(spot: LocatedNode) -> Outcome<Map<String, Value>> {
    match spot.node.to_json() {
        Value::Object(map) => Ok(map),
        _ => Err(spot.wrong("a map")),
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
            assert_eq!(shape(text).unwrap().to_string(), read);
        }
        for wrong in ["list<", "dict<int,string>", "set<int>", "", "in t", "list<int"] {
            assert_eq!(shape(wrong), None, "{wrong}");
        }
    }
}
