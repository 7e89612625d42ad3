//! Puts of what was used of models.

use singletree_durable::{SessionKey, UsageRow};

use crate::error::Failure;
use crate::meter::Scribe;
use crate::number::stored;

/// Adds to the session's row and to its tenant's, which stands under no session.
pub(super) fn add(scribe: &Scribe<'_>, key: &SessionKey, row: &UsageRow) -> Result<(), Failure> {
    let values = [
        key.tenant.as_str().into(),
        (&row.model).into(),
        stored(row.calls)?.into(),
        stored(row.prompt_tokens)?.into(),
        stored(row.completion_tokens)?.into(),
        stored(row.cached_tokens)?.into(),
        stored(row.cache_creation_tokens)?.into(),
        key.session.as_str().into(),
    ];
    scribe.write(ADD, &values)?;
    Ok(())
}

const ADD: &str = "INSERT INTO usage (tenant, session, model, calls, prompt_tokens, completion_tokens, \
    cached_tokens, cache_creation_tokens) VALUES (?1, ?8, ?2, ?3, ?4, ?5, ?6, ?7), (?1, '', ?2, ?3, ?4, ?5, ?6, ?7) \
    ON CONFLICT (tenant, session, model) DO UPDATE SET calls = calls + excluded.calls, \
    prompt_tokens = prompt_tokens + excluded.prompt_tokens, \
    completion_tokens = completion_tokens + excluded.completion_tokens, \
    cached_tokens = cached_tokens + excluded.cached_tokens, \
    cache_creation_tokens = cache_creation_tokens + excluded.cache_creation_tokens";

/// Removes what a session used; its tenant's sum stays.
pub(super) fn forget(scribe: &Scribe<'_>, key: &SessionKey) -> Result<(), Failure> {
    let name = [key.tenant.as_str().into(), key.session.as_str().into()];
    scribe.write("DELETE FROM usage WHERE tenant = ? AND session = ?", &name).map(drop)
}
