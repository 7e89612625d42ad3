//! Documents inside of a document: as they are, not as text in quotes.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::Json;

/// A document that keeps its text when it is stored inside of another one.
struct Raw(Json);

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.0.as_str().to_owned();
        RawValue::from_string(text).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(Json::from_text(raw.get())))
    }
}

type Map = BTreeMap<String, Json>;

fn bare(map: BTreeMap<String, Raw>) -> Map {
    map.into_iter().map(|(name, it)| (name, it.0)).collect()
}

fn dressed(map: &Map) -> BTreeMap<&str, Raw> {
    map.iter().map(|(name, it)| (name.as_str(), Raw(it.clone()))).collect()
}

/// A map of documents.
pub(crate) mod map {
    use super::{BTreeMap, Deserialize, Deserializer, Map, Raw, Serialize, Serializer, bare, dressed};

    pub(crate) fn serialize<S: Serializer>(map: &Map, serializer: S) -> Result<S::Ok, S::Error> {
        dressed(map).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Map, D::Error> {
        BTreeMap::<String, Raw>::deserialize(deserializer).map(bare)
    }
}

/// Several maps of documents.
pub(crate) mod maps {
    use super::{BTreeMap, Deserialize, Deserializer, Map, Raw, Serializer, bare, dressed};

    pub(crate) fn serialize<S: Serializer>(maps: &[Map], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(maps.iter().map(dressed))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Map>, D::Error> {
        let maps = Vec::<BTreeMap<String, Raw>>::deserialize(deserializer)?;
        Ok(maps.into_iter().map(bare).collect())
    }
}

/// A document that may be absent.
pub(crate) mod option {
    use super::{Deserialize, Deserializer, Json, Raw, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(json: &Option<Json>, serializer: S) -> Result<S::Ok, S::Error> {
        json.clone().map(Raw).serialize(serializer)
    }

    /// A field that is there is a document, also when it is null; one that is not is left to the default.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
        Raw::deserialize(deserializer).map(|deserialize| Some(deserialize.0))
    }
}
