//! Managers and label resolvers, as fixtures describe them.

use std::time::Duration;

use singletree::prompts::Labels;

use super::source::count;
use crate::failure::Outcome;
use crate::fields::Spot;

/// A manager.
#[derive(Debug)]
pub(super) struct ManagerSpec {
    pub(super) path: String,
    /// Its backends in order; all of the case's when it names none.
    pub(super) backends: Option<Vec<String>>,
    pub(super) resolver: Resolving,
    pub(super) cache_ttl: Option<Duration>,
}

/// Who resolves a manager's labels.
#[derive(Debug)]
pub(super) enum Resolving {
    /// Nobody.
    None,
    /// A resolver of the case.
    Named(String),
    /// Its own.
    Own(Labels),
}

/// A resolver of a case.
#[derive(Debug)]
pub(super) struct ResolverSpec {
    pub(super) name: Option<String>,
    pub(super) labels: Labels,
}

impl ManagerSpec {
    pub(super) fn read(spot: Spot) -> Outcome<Self> {
        let path = spot.path.clone();
        let mut block = spot.fields()?;
        let mut take = |key: &str| block.take(key).filter(|it| !it.is_null());
        let named = take("label_resolver_ref").map(|it| it.text().map(str::to_owned)).transpose()?;
        let own = take("label_resolver");
        let resolver = match (named, own) {
            (Some(name), None) => Resolving::Named(name),
            (None, Some(own)) => Resolving::Own(ResolverSpec::read(None, own)?.labels),
            (None, None) => Resolving::None,
            (Some(_), Some(own)) => return Err(own.wrong("one resolver")),
        };
        let spec = Self {
            path,
            backends: block.take("backends").map(Spot::texts).transpose()?,
            resolver,
            cache_ttl: block
                .take("default_cache_ttl_seconds")
                .and_then(|it| ttl(&it).transpose())
                .transpose()?,
        };
        block.finish()?;
        Ok(spec)
    }
}

impl ResolverSpec {
    pub(super) fn read(name: Option<String>, spot: Spot) -> Outcome<Self> {
        let mut block = spot.fields()?;
        let own_name = block.text("name")?;
        let mut mapping = block.need("mapping")?.fields()?;
        let mut labels = Labels::new();
        while let Some((prompt, label)) = mapping.next() {
            labels = labels.with(prompt, label.text()?);
        }
        block.finish()?;
        Ok(Self { name: name.or(own_name), labels })
    }
}

/// Reads a bound in seconds; null is none.
pub(super) fn ttl(spot: &Spot) -> Outcome<Option<Duration>> {
    if spot.is_null() { Ok(None) } else { count(spot).map(|it| Some(Duration::from_secs(it))) }
}
