//! The state of the device, and how private it is (spec: OpenHarness §8).

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::given::words;

/// How private something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PrivacyTier {
    /// May be logged and shared.
    Public,
    /// May hold what identifies people: kept as little as possible.
    Restricted,
    /// Neither logged nor given to anybody else.
    Secret,
}

words!(PrivacyTier, "public" => Public, "restricted" => Restricted, "secret" => Secret);

impl PrivacyTier {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Public, Self::Restricted, Self::Secret];

    /// Returns the protocol's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Restricted => "restricted",
            Self::Secret => "secret",
        }
    }
}

/// The state of the device: whatever the shell says, under one tier. `Debug` shows none of it.
#[derive(Clone, PartialEq, Default, Serialize)]
pub struct EnvironmentState {
    /// How private all of it is, if the shell says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub privacy_tier: Option<PrivacyTier>,
    /// What is said.
    #[serde(flatten)]
    pub facts: Map<String, Value>,
}

impl EnvironmentState {
    /// Returns how private it is to be taken: what has no label is restricted.
    #[must_use]
    pub fn privacy_tier(&self) -> PrivacyTier {
        self.privacy_tier.unwrap_or(PrivacyTier::Restricted)
    }
}

impl fmt::Debug for EnvironmentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvironmentState").field("privacy_tier", &self.privacy_tier).finish_non_exhaustive()
    }
}

impl<'de> Deserialize<'de> for EnvironmentState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Read key by key, so that a mistake has a place: a flattened map would lose it.
        deserializer.deserialize_map(Facts)
    }
}

struct Facts;

impl<'de> Visitor<'de> for Facts {
    type Value = EnvironmentState;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<EnvironmentState, A::Error> {
        let mut state = EnvironmentState::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "privacy_tier" => state.privacy_tier = map.next_value()?,
                "os" | "active_window" | "screen_hash" => {
                    if let Some(text) = map.next_value::<Option<String>>()? {
                        state.facts.insert(key, text.into());
                    }
                }
                _ => {
                    let fact = map.next_value()?;
                    state.facts.insert(key, fact);
                }
            }
        }
        Ok(state)
    }
}
