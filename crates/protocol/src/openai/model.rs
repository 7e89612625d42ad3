//! Who can be asked.

use serde::{Deserialize, Serialize};

/// Someone who can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// The name to ask by.
    pub id: String,
    /// What it is.
    pub object: ModelObject,
    /// Since when, in seconds since the Unix epoch; 0 where nobody said.
    pub created: i64,
    /// Whose it is.
    pub owned_by: String,
    /// Its name for people, where that is another one: an extension that several front ends show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What a model is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelObject {
    /// A model.
    #[default]
    Model,
    /// Several.
    List,
}

/// All who can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelList {
    /// What it is: a list.
    pub object: ModelObject,
    /// Who.
    pub data: Vec<Model>,
}
