//! Documents inside of a document: as they are, not as text in quotes.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::JsonDocument;

/// A document that keeps its text when it is stored inside of another one.
struct EmbeddedJson(JsonDocument);

impl Serialize for EmbeddedJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.0.as_str().to_owned();
        RawValue::from_string(text).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for EmbeddedJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(JsonDocument::from_text(raw.get())))
    }
}

type Map = BTreeMap<String, JsonDocument>;

fn unwrap_embedded(map: BTreeMap<String, EmbeddedJson>) -> Map {
    map.into_iter().map(|(name, it)| (name, it.0)).collect()
}

fn wrap_embedded(map: &Map) -> BTreeMap<&str, EmbeddedJson> {
    map.iter().map(|(name, it)| (name.as_str(), EmbeddedJson(it.clone()))).collect()
}

/// A map of documents.
pub(crate) mod map {
    use super::{
        BTreeMap, Deserialize, Deserializer, EmbeddedJson, Map, Serialize, Serializer, unwrap_embedded,
        wrap_embedded,
    };

    pub(crate) fn serialize<S: Serializer>(map: &Map, serializer: S) -> Result<S::Ok, S::Error> {
        wrap_embedded(map).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Map, D::Error> {
        BTreeMap::<String, EmbeddedJson>::deserialize(deserializer).map(unwrap_embedded)
    }
}

/// Several maps of documents.
pub(crate) mod maps {
    use super::{
        BTreeMap, Deserialize, Deserializer, EmbeddedJson, Map, Serializer, unwrap_embedded, wrap_embedded,
    };

    pub(crate) fn serialize<S: Serializer>(maps: &[Map], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(maps.iter().map(wrap_embedded))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Map>, D::Error> {
        let maps = Vec::<BTreeMap<String, EmbeddedJson>>::deserialize(deserializer)?;
        Ok(maps.into_iter().map(unwrap_embedded).collect())
    }
}

/// A document that may be absent.
pub(crate) mod option {
    use super::{Deserialize, Deserializer, EmbeddedJson, JsonDocument, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        json: &Option<JsonDocument>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        json.clone().map(EmbeddedJson).serialize(serializer)
    }

    /// A field that is there is a document, also when it is null; one that is not is left to the default.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<JsonDocument>, D::Error> {
        EmbeddedJson::deserialize(deserializer).map(|deserialize| Some(deserialize.0))
    }
}
