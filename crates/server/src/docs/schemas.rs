//! The schemas of a document: collected once, named by their types.

use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value};

use crate::section::SchemaOf;

/// Where shared schemas stand in a document.
const SHARED: &str = "/components/schemas";

/// The schemas of request types and of response types: the two schemas of one type differ in their optional fields.
pub(super) struct OpenApiSchemas {
    taken: SchemaGenerator,
    answered: SchemaGenerator,
}

impl OpenApiSchemas {
    pub(super) fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|draft2020_12| {
            draft2020_12.definitions_path = SHARED.into();
            draft2020_12.meta_schema = None;
        });
        let taken = settings.clone().for_deserialize().into_generator();
        Self { taken, answered: settings.for_serialize().into_generator() }
    }

    /// Returns the schema of something that is taken.
    pub(super) fn request_schema(&mut self, of: SchemaOf) -> Value {
        of(&mut self.taken).to_value()
    }

    /// Returns the schema of something that is answered.
    pub(super) fn response_schema(&mut self, of: SchemaOf) -> Value {
        of(&mut self.answered).to_value()
    }

    /// Returns the properties of a type that is taken, by name: schema, and whether it is required.
    pub(super) fn request_properties(&mut self, of: SchemaOf) -> Vec<(String, Value, bool)> {
        let schema = of(&mut self.taken);
        let schema = self.resolve_reference(&schema);
        let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        let properties = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        let properties = properties.into_iter().map(|(name, mut schema)| {
            remove_null_type(&mut schema);
            let is_required = required.iter().any(|it| it == name.as_str());
            (name, schema, is_required)
        });
        properties.collect()
    }

    fn resolve_reference(&self, schema: &Schema) -> Map<String, Value> {
        let place = schema.get("$ref").and_then(Value::as_str).and_then(|it| it.rsplit('/').next());
        let shared = place.and_then(|place| self.taken.definitions().get(place)).and_then(Value::as_object);
        shared.or(schema.as_object()).cloned().unwrap_or_default()
    }

    /// Returns all shared schemas; those that only parameters were made of are not among them.
    pub(super) fn into_shared_schemas(mut self, parameters: &[SchemaOf]) -> Map<String, Value> {
        let mut names = Vec::new();
        for of in parameters {
            let schema = of(&mut self.taken);
            names.extend(
                schema
                    .get("$ref")
                    .and_then(Value::as_str)
                    .and_then(|it| it.rsplit('/').next())
                    .map(str::to_owned),
            );
        }
        let mut all = self.taken.take_definitions(true);
        for name in names {
            all.remove(&name);
        }
        for (name, schema) in self.answered.take_definitions(true) {
            let known = all.insert(name.clone(), schema.clone());
            debug_assert!(
                known.is_none_or(|known| known == schema),
                "{name} is taken otherwise than it is answered"
            );
        }
        all.into_iter().collect()
    }
}

/// Removes null from the types of a parameter: an optional parameter is left out instead.
fn remove_null_type(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    if let Some(Value::Array(kinds)) = schema.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [one] = kinds.as_slice() {
            let one = one.clone();
            schema.insert("type".into(), one);
        }
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
}
