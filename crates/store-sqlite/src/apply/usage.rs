//! Puts of usage of models.

use singletree_durable::{SessionKey, UsageRow};

use crate::checksum;
use crate::error::BatchFailure;
use crate::meter::{BoundValue, WriteTransaction};
use crate::number::to_stored_number;

/// Adds to the session's row and to its tenant's row, whose session is the empty text.
pub(super) fn add_usage(
    scribe: &WriteTransaction<'_>,
    key: &SessionKey,
    row: &UsageRow,
) -> Result<(), BatchFailure> {
    let values: [BoundValue<'_>; 8] = [
        key.tenant.as_str().into(),
        (&row.model).into(),
        to_stored_number(row.calls)?.into(),
        to_stored_number(row.prompt_tokens)?.into(),
        to_stored_number(row.completion_tokens)?.into(),
        to_stored_number(row.cached_tokens)?.into(),
        to_stored_number(row.cache_creation_tokens)?.into(),
        key.session.as_str().into(),
    ];
    let [tenant, model, calls, prompt, completion, cached, creation, session] = values;
    let counts = [calls, prompt, completion, cached, creation];
    let of_session = checksum::checksum_with_counts(&[tenant, session, model], &counts);
    let of_tenant = checksum::checksum_with_counts(&[tenant, "".into(), model], &counts);
    let added = checksum::difference_of_counts(&counts);
    scribe.execute_write(ADD, &[values.as_slice(), &[of_session, of_tenant, added]].concat()).map(drop)
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
pub(super) fn remove_session_usage(
    scribe: &WriteTransaction<'_>,
    key: &SessionKey,
) -> Result<(), BatchFailure> {
    let name = [key.tenant.as_str().into(), key.session.as_str().into()];
    scribe.execute_write("DELETE FROM usage WHERE tenant = ? AND session = ?", &name).map(drop)
}
