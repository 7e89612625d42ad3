//! Classification of failures through the wrappers that the engine adds (pipeline-utilities §6.4).

use std::error::Error as StdError;

use super::fault::NodeFault;
use crate::error::Error;

/// How many causes are looked at: a bound for chains that never end.
const DEEPEST: usize = 64;

/// One error of a chain of causes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorLink {
    /// Its category, when it has one.
    pub category: Option<String>,
    /// Its own message.
    pub message: String,
    /// Whether it is a wrapper that the engine put around a failure on its way through a node.
    pub carrier: bool,
}

/// A failure, seen through its wrappers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classification {
    /// The chain of causes, outermost first.
    pub chain: Vec<ErrorLink>,
    /// The category of the outermost link that is no carrier and has one.
    pub category: Option<String>,
    /// The message of that link, or of the outermost link that is no carrier.
    pub message: String,
}

/// Classifies an error by the underlying failure, whatever the engine has wrapped around it.
///
/// Retry, failure isolation and events classify with this function; so should routers and metrics. Node errors, which
/// are no [`std::error::Error`], have [`NodeError::classify`](crate::NodeError::classify).
#[must_use]
pub fn classify_error(error: &(dyn StdError + 'static)) -> Classification {
    let chain: Vec<ErrorLink> = walk_error_links(error).map(|it| it.to_error_link()).collect();
    let named = chain.iter().find(|it| !it.carrier && it.category.is_some());
    let told = named.or_else(|| chain.iter().find(|it| !it.carrier)).or(chain.first());
    let message = told.map_or_else(|| error.to_string(), |told| told.message.clone());
    Classification { category: named.and_then(|named| named.category.clone()), message, chain }
}

/// Returns the category of the outermost link that is no carrier and has one.
pub(crate) fn find_error_category<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a str> {
    walk_error_links(error).filter(|link| !link.carrier).find_map(|link| link.category)
}

/// A link that is not copied.
pub(crate) struct BorrowedErrorLink<'a> {
    error: &'a (dyn StdError + 'static),
    pub(crate) category: Option<&'a str>,
    pub(crate) carrier: bool,
    pub(crate) transient: bool,
}

impl BorrowedErrorLink<'_> {
    /// Tells whether it is the wrapper that the engine puts around the failure of a branch.
    pub(crate) fn wraps_branch_failure(&self) -> bool {
        matches!(self.error.downcast_ref(), Some(Error::Branch { .. }))
    }

    fn to_error_link(&self) -> ErrorLink {
        ErrorLink {
            category: self.category.map(str::to_owned),
            message: self.error.to_string(),
            carrier: self.carrier,
        }
    }
}

/// Walks down the causes, outermost first. It ends at an error that was seen before, and after a bounded number.
pub(crate) fn walk_error_links<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = BorrowedErrorLink<'a>> {
    let mut seen: Vec<*const (dyn StdError + 'static)> = Vec::new();
    let mut next = Some(error);
    std::iter::from_fn(move || {
        loop {
            let error = next.take()?;
            // Values without a size have no address of their own.
            if seen.len() >= DEEPEST
                || (size_of_val(error) > 0 && seen.iter().any(|it| is_same_error(*it, error)))
            {
                return None;
            }
            seen.push(error);
            let (link, below) = inspect_error(error);
            next = below;
            if link.is_some() {
                return link;
            }
        }
    })
}

type ErrorSource<'a> = Option<&'a (dyn StdError + 'static)>;

/// Tells whether two errors are one. An error may lie at the address of the error that it is a field of; their types
/// differ.
#[expect(ambiguous_wide_pointer_comparisons, reason = "the type is what tells an error from its first field")]
fn is_same_error(one: *const (dyn StdError + 'static), other: *const (dyn StdError + 'static)) -> bool {
    one == other
}

/// Looks at one error: returns its link, unless it only repeats its cause, and the error below it.
fn inspect_error<'a>(
    error: &'a (dyn StdError + 'static),
) -> (Option<BorrowedErrorLink<'a>>, ErrorSource<'a>) {
    let link = |category, carrier| Some(BorrowedErrorLink { error, category, carrier, transient: false });
    if let Some(engine) = error.downcast_ref::<Error>() {
        let carrier = engine.wrapped_fault();
        let below = carrier.map_or_else(|| engine.source(), |carrier| Some(carrier));
        return (link(Some(engine.surface_category()), carrier.is_some()), below);
    }
    let Some(fault) = error.downcast_ref::<NodeFault>() else {
        return (link(None, false), error.source());
    };
    // A fault that only repeats an error of the engine's counts as that error.
    match fault.engine_error() {
        Some(engine) if fault.only_repeats_cause() => (None, Some(engine)),
        _ => {
            let (category, transient) = (fault.own_category(), fault.is_transient());
            (Some(BorrowedErrorLink { error, category, carrier: false, transient }), fault.source())
        }
    }
}
