//! Migrations between versions of a state's schema (sessions §7, pipeline-utilities §10.12).

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::Value;

use crate::BoxError;

/// A state as migrations see it: each field's value, independent of any schema.
type State = BTreeMap<String, Value>;

type Migrate = dyn Fn(State) -> Result<State, BoxError> + Send + Sync;

/// The registered migrations of a state.
///
/// The owner binds the registry to a kind of state: one registry for sessions, one for checkpoints. The owner also
/// chooses the category of an error (`session_state_migration_*` or `checkpoint_state_migration_*`).
///
/// Functions must be pure; a chain may be applied more than once. The order of registration has no meaning.
///
/// # Example
/// ```
/// use std::collections::BTreeMap;
/// use singletree_durable::StateMigrations;
///
/// let migrations = StateMigrations::new().with("v1", "v2", |mut state| {
///     state.insert("topic".to_owned(), "none".into());
///     Ok(state)
/// });
/// migrations.check()?;
/// let state = migrations.migrate("v1", "v2", BTreeMap::new())?;
/// assert_eq!(state["topic"], "none");
/// # Ok::<(), singletree_durable::MigrationError>(())
/// ```
#[derive(Clone, Default)]
pub struct StateMigrations {
    edges: Vec<MigrationEdge>,
}

#[derive(Clone)]
struct MigrationEdge {
    from: String,
    to: String,
    migrate: Arc<Migrate>,
}

/// Why a state cannot be migrated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrationError {
    /// No chain of migrations connects the versions.
    #[error(
        "no chain of migrations leads from version {from_version:?} to {to_version:?} \
         ({registered_migrations_count} registered: {registry_description})"
    )]
    Missing {
        /// The version that is stored.
        from_version: String,
        /// The version that is wanted.
        to_version: String,
        /// How many migrations are registered.
        registered_migrations_count: usize,
        /// Which, in words.
        registry_description: String,
    },
    /// A migration failed; those after it did not run.
    #[error("the migration from version {from_version:?} to {to_version:?} failed")]
    Failed {
        /// The failing migration's source.
        from_version: String,
        /// The failing migration's target.
        to_version: String,
        /// The error that it returned.
        source: BoxError,
    },
    /// One pair of versions was registered twice, or several chains are the shortest.
    #[error("the migrations from version {from_version:?} to {to_version:?} are ambiguous")]
    Ambiguous {
        /// The source of the pair, where it is known.
        from_version: Option<String>,
        /// The target of the pair, where it is known.
        to_version: Option<String>,
    },
}

/// Which kind a [`MigrationError`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MigrationErrorKind {
    /// No chain.
    Missing,
    /// A migration failed.
    Failed,
    /// More than one chain.
    Ambiguous,
}

impl MigrationError {
    /// Returns the kind, from which the owner of the registry makes the category.
    #[must_use]
    pub fn kind(&self) -> MigrationErrorKind {
        match self {
            Self::Missing { .. } => MigrationErrorKind::Missing,
            Self::Failed { .. } => MigrationErrorKind::Failed,
            Self::Ambiguous { .. } => MigrationErrorKind::Ambiguous,
        }
    }
}

/// The panic message of a migration.
#[derive(Debug, thiserror::Error)]
#[error("the migration panicked: {0}")]
struct MigrationPanic(String);

impl StateMigrations {
    /// Makes an empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a migration from one version to another. [`StateMigrations::check`] tells whether the set is sound.
    #[must_use]
    pub fn with(
        mut self,
        from: impl Into<String>,
        to: impl Into<String>,
        migrate: impl Fn(BTreeMap<String, Value>) -> Result<BTreeMap<String, Value>, BoxError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.edges.push(MigrationEdge { from: from.into(), to: to.into(), migrate: Arc::new(migrate) });
        self
    }

    /// Tells how many migrations are registered.
    #[must_use]
    pub fn count_registered(&self) -> usize {
        self.edges.len()
    }

    /// Checks the whole set, as a graph does when it is compiled.
    ///
    /// # Errors
    /// [`MigrationError::Ambiguous`]: a pair was registered twice, or two versions have several shortest chains.
    pub fn check(&self) -> Result<(), MigrationError> {
        self.check_unique_pairs()?;
        let sources: BTreeSet<&str> = self.edges.iter().map(|edge| edge.from.as_str()).collect();
        for from in sources {
            let reached = self.reach_versions(from);
            if let Some((to, _)) = reached.iter().find(|(_, it)| it.is_ambiguous) {
                return Err(ambiguous_error(from, to));
            }
        }
        Ok(())
    }

    /// Brings a state from one version to another by the shortest chain. Equal versions never consult the registry.
    ///
    /// # Errors
    /// Ambiguous (a pair registered twice, wherever it is; or several shortest chains between these versions), missing,
    /// failed: looked for in this order. A migration that panics has failed.
    pub fn migrate(
        &self,
        from: &str,
        to: &str,
        state: BTreeMap<String, Value>,
    ) -> Result<BTreeMap<String, Value>, MigrationError> {
        if from == to {
            return Ok(state);
        }
        self.check_unique_pairs()?;
        self.find_shortest_chain(from, to)?
            .into_iter()
            .try_fold(state, |state, edge| edge.run_migration(state))
    }

    fn check_unique_pairs(&self) -> Result<(), MigrationError> {
        let mut seen = BTreeSet::new();
        match self.edges.iter().find(|edge| !seen.insert((&edge.from, &edge.to))) {
            Some(twice) => Err(ambiguous_error(&twice.from, &twice.to)),
            None => Ok(()),
        }
    }

    /// Finds the one shortest chain.
    fn find_shortest_chain<'a>(
        &'a self,
        from: &'a str,
        to: &'a str,
    ) -> Result<Vec<&'a MigrationEdge>, MigrationError> {
        let reached = self.reach_versions(from);
        if reached.get(to).is_some_and(|reached| reached.is_ambiguous) {
            return Err(ambiguous_error(from, to));
        }
        let (mut chain, mut at) = (Vec::new(), to);
        while at != from {
            let Some(edge) = reached.get(at).and_then(|it| it.by) else {
                return Err(self.missing_error(from, to));
            };
            chain.push(edge);
            at = &edge.from;
        }
        chain.reverse();
        Ok(chain)
    }

    /// Walks breadth first from a version: how each version is reached by the fewest migrations.
    fn reach_versions<'a>(&'a self, from: &'a str) -> BTreeMap<&'a str, ReachedVersion<'a>> {
        let start = ReachedVersion { distance: 0, by: None, is_ambiguous: false };
        let mut reached = BTreeMap::from([(from, start)]);
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            let here = reached[at];
            for edge in self.edges.iter().filter(|edge| edge.from == at) {
                let there = ReachedVersion {
                    distance: here.distance + 1,
                    by: Some(edge),
                    is_ambiguous: here.is_ambiguous,
                };
                match reached.get_mut(edge.to.as_str()) {
                    None => {
                        reached.insert(&edge.to, there);
                        queue.push_back(&edge.to);
                    }
                    // Versions of one distance are all in the queue before any of them goes on, so a version is known
                    // to be ambiguous before anything is reached through it.
                    Some(known) if known.distance == there.distance => known.is_ambiguous = true,
                    Some(_) => {}
                }
            }
        }
        reached
    }

    fn missing_error(&self, from: &str, to: &str) -> MigrationError {
        MigrationError::Missing {
            from_version: from.to_owned(),
            to_version: to.to_owned(),
            registered_migrations_count: self.edges.len(),
            registry_description: self.to_string(),
        }
    }
}

/// How a version is reached.
#[derive(Clone, Copy)]
struct ReachedVersion<'a> {
    distance: usize,
    by: Option<&'a MigrationEdge>,
    is_ambiguous: bool,
}

impl MigrationEdge {
    fn run_migration(&self, state: State) -> Result<State, MigrationError> {
        let answer = catch_unwind(AssertUnwindSafe(|| (self.migrate)(state)));
        let answer =
            answer.unwrap_or_else(|panic| Err(Box::new(MigrationPanic(panic_message(panic.as_ref())))));
        answer.map_err(|source| MigrationError::Failed {
            from_version: self.from.clone(),
            to_version: self.to.clone(),
            source,
        })
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|it| (*it).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a word".to_owned())
}

fn ambiguous_error(from: &str, to: &str) -> MigrationError {
    MigrationError::Ambiguous { from_version: Some(from.to_owned()), to_version: Some(to.to_owned()) }
}

/// Lists the registered pairs, ordered.
impl fmt::Display for StateMigrations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut pairs: Vec<_> =
            self.edges.iter().map(|edge| format!("{} -> {}", edge.from, edge.to)).collect();
        pairs.sort();
        f.write_str(if pairs.is_empty() { "none" } else { "" })?;
        f.write_str(&pairs.join(", "))
    }
}

impl fmt::Debug for StateMigrations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StateMigrations({self})")
    }
}

#[cfg(test)]
mod tests;
