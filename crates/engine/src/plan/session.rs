//! The fields of a state that are kept in its session (sessions §4).

use std::sync::Arc;

use singletree_graph::{FieldContent, FieldFault, StateSchema};

use super::problem::{GraphProblem, GraphProblemKind};

/// Which fields of the state are the session's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SessionShape {
    /// All of them (sessions §4.1).
    #[default]
    Full,
    /// A declared slice (sessions §4.2): pairs of (session field, state field), and the version of the slice's own
    /// schema when it has one.
    Projected {
        /// The pairs.
        fields: Vec<(String, String)>,
        /// The version of the session's schema; the state's unless declared.
        version: Option<String>,
    },
}

impl SessionShape {
    /// Keeps the named fields under their own names.
    #[must_use]
    pub fn from_field_names<'a>(fields: impl IntoIterator<Item = &'a str>) -> Self {
        let fields = fields.into_iter().map(|field| (field.to_owned(), field.to_owned())).collect();
        Self::Projected { fields, version: None }
    }

    pub(crate) fn resolve_session_plan(
        &self,
        schema: &StateSchema,
        problems: &mut Vec<GraphProblem>,
    ) -> SessionPlan {
        match self {
            Self::Full => {
                let fields = schema.fields().iter().enumerate();
                let fields = fields.map(|(at, it)| (Arc::from(it.name()), at)).collect();
                SessionPlan { fields, version: schema.version().to_owned() }
            }
            Self::Projected { fields, version } => {
                let mut plan = Vec::new();
                for (session, state) in fields {
                    match schema.find_field_index(state) {
                        Some(at) => plan.push((Arc::from(session.as_str()), at)),
                        None => {
                            let message = format!(
                                "the session projection names field '{state}', which is not declared"
                            );
                            problems.push(GraphProblem::new(
                                GraphProblemKind::MappingReferencesUndeclaredField,
                                message,
                            ));
                        }
                    }
                }
                let version = version.clone().unwrap_or_else(|| schema.version().to_owned());
                SessionPlan { fields: plan, version }
            }
        }
    }
}

impl SessionPlan {
    /// Checks fields from a store or a migration, list elements included. Fields that are not the session's are not
    /// looked at: they are dropped.
    pub(crate) fn check_stored_fields(
        &self,
        schema: &StateSchema,
        fields: &[(Arc<str>, FieldContent)],
    ) -> Result<(), FieldFault> {
        fields.iter().try_for_each(|(name, slot)| match self.fields.iter().find(|(it, _)| it == name) {
            Some((_, at)) => schema.check_field_content(schema.fields()[*at].name(), slot),
            None => Ok(()),
        })
    }
}

/// The session's fields, resolved: its own name of each, and where it stands in the state.
#[derive(Debug, Clone)]
pub(crate) struct SessionPlan {
    pub(crate) fields: Vec<(Arc<str>, usize)>,
    pub(crate) version: String,
}
