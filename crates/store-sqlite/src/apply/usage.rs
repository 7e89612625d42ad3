//! Puts of usage of models.

use singletree_durable::{SessionKey, UsageRow};

use crate::checksum;
use crate::error::BatchFailure;
use crate::meter::{BoundValue, WriteTransaction};
use crate::number::stored;

/// Adds to the session's row and to its tenant's row, whose session is the empty text.
pub(super) fn add(
    scribe: &WriteTransaction<'_>,
    key: &SessionKey,
    row: &UsageRow,
) -> Result<(), BatchFailure> {
    let values: [BoundValue<'_>; 8] = [
        key.tenant.as_str().into(),
        (&row.model).into(),
        stored(row.calls)?.into(),
        stored(row.prompt_tokens)?.into(),
        stored(row.completion_tokens)?.into(),
        stored(row.cached_tokens)?.into(),
        stored(row.cache_creation_tokens)?.into(),
        key.session.as_str().into(),
    ];
    let [tenant, model, calls, prompt, completion, cached, creation, session] = values;
    let counts = [calls, prompt, completion, cached, creation];
    let of_session = checksum::of_counts(&[tenant, session, model], &counts);
    let of_tenant = checksum::of_counts(&[tenant, "".into(), model], &counts);
    let added = checksum::of_added(&counts);
    scribe.write(ADD, &[values.as_slice(), &[of_session, of_tenant, added]].concat()).map(drop)
}

const ADD: &str = "INSERT INTO usage (tenant, session, model, calls, prompt_tokens, completion_tokens, \
    cached_tokens, cache_creation_tokens, checksum) \
    VALUES (?1, ?8, ?2, ?3, ?4, ?5, ?6, ?7, ?9), (?1, '', ?2, ?3, ?4, ?5, ?6, ?7, ?10) \
    ON CONFLICT (tenant, session, model) DO UPDATE SET calls = calls + excluded.calls, \
    prompt_tokens = prompt_tokens + excluded.prompt_tokens, \
    completion_tokens = completion_tokens + excluded.completion_tokens, \
    cached_tokens = cached_tokens + excluded.cached_tokens, \
    cache_creation_tokens = cache_creation_tokens + excluded.cache_creation_tokens, \
    checksum = (checksum + ?11) & 2147483647";

/// Removes the usage of a session; the sum of its tenant stays.
pub(super) fn forget(scribe: &WriteTransaction<'_>, key: &SessionKey) -> Result<(), BatchFailure> {
    let name = [key.tenant.as_str().into(), key.session.as_str().into()];
    scribe.write("DELETE FROM usage WHERE tenant = ? AND session = ?", &name).map(drop)
}
