//! Reads typed values out of a row; a value that does not fit is corruption, never guessed (INV-13).

use rusqlite::types::Type;
use rusqlite::{Result, Row};
use singletree_durable::{
    Counters, InvalidIdentifier, InvocationId, JsonDocument, SessionId, SessionKey, SubjectId, TenantId,
    Timestamp,
};

use crate::word::ColumnKeyword;

/// A value that nobody here could have written.
#[derive(Debug)]
struct UnknownColumnValue(String);

impl std::fmt::Display for UnknownColumnValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "unknown word {:?}", self.0)
    }
}

impl std::error::Error for UnknownColumnValue {}

/// Reads a number.
pub(crate) fn read_number(row: &Row<'_>, at: usize) -> Result<u64> {
    let raw: i64 = row.get(at)?;
    u64::try_from(raw).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(at, raw))
}

/// Reads a number that may be absent.
pub(crate) fn read_optional_number(row: &Row<'_>, at: usize) -> Result<Option<u64>> {
    match row.get::<_, Option<i64>>(at)? {
        None => Ok(None),
        Some(_) => read_number(row, at).map(Some),
    }
}

/// Reads next free numbers, which stand in four columns from this one on.
pub(crate) fn read_counters(row: &Row<'_>, at: usize) -> Result<Counters> {
    Ok(Counters {
        turns: read_number(row, at)?,
        items: read_number(row, at + 1)?,
        events: read_number(row, at + 2)?,
        waits: read_number(row, at + 3)?,
    })
}

/// Reads a small number.
pub(crate) fn read_small_number(row: &Row<'_>, at: usize) -> Result<u32> {
    let raw: i64 = row.get(at)?;
    u32::try_from(raw).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(at, raw))
}

/// Reads a time.
pub(crate) fn read_time(row: &Row<'_>, at: usize) -> Result<Timestamp> {
    row.get(at).map(Timestamp::from_millis)
}

/// Reads a time that may be absent.
pub(crate) fn read_optional_time(row: &Row<'_>, at: usize) -> Result<Option<Timestamp>> {
    row.get::<_, Option<i64>>(at).map(|it| it.map(Timestamp::from_millis))
}

/// Reads a document.
pub(crate) fn read_json(row: &Row<'_>, at: usize) -> Result<JsonDocument> {
    Ok(JsonDocument::from_text(row.get_ref(at)?.as_str()?))
}

/// Reads a document that may be absent.
pub(crate) fn read_optional_json(row: &Row<'_>, at: usize) -> Result<Option<JsonDocument>> {
    Ok(row.get_ref(at)?.as_str_or_null()?.map(JsonDocument::from_text))
}

/// Reads a member of a closed set.
pub(crate) fn read_keyword<T: ColumnKeyword>(row: &Row<'_>, at: usize) -> Result<T> {
    let text = row.get_ref(at)?.as_str()?;
    T::from_keyword(text).ok_or_else(|| unfit_value_error(at, UnknownColumnValue(text.to_owned())))
}

/// Reads an invocation's id.
pub(crate) fn read_invocation_id(row: &Row<'_>, at: usize) -> Result<InvocationId> {
    parse_identifier(row, at, |text| InvocationId::parse(text))
}

/// Reads a tenant's id.
pub(crate) fn read_tenant_id(row: &Row<'_>, at: usize) -> Result<TenantId> {
    parse_identifier(row, at, |text| TenantId::parse(text))
}

/// Reads a session's id.
pub(crate) fn read_session_id(row: &Row<'_>, at: usize) -> Result<SessionId> {
    parse_identifier(row, at, |text| SessionId::parse(text))
}

/// Reads on whose behalf a session was made.
pub(crate) fn read_optional_subject(row: &Row<'_>, at: usize) -> Result<Option<SubjectId>> {
    match row.get_ref(at)? {
        rusqlite::types::ValueRef::Null => Ok(None),
        _ => parse_identifier(row, at, |text| SubjectId::parse(text)).map(Some),
    }
}

/// Reads a session's key, which stands in two columns from this one on.
pub(crate) fn read_session_key(row: &Row<'_>, at: usize) -> Result<SessionKey> {
    Ok(SessionKey::new(read_tenant_id(row, at)?, read_session_id(row, at + 1)?))
}

fn parse_identifier<T>(
    row: &Row<'_>,
    at: usize,
    parse: impl Fn(&str) -> std::result::Result<T, InvalidIdentifier>,
) -> Result<T> {
    parse(row.get_ref(at)?.as_str()?).map_err(|error| unfit_value_error(at, error))
}

/// Says that a value is nothing that somebody here could have written.
pub(crate) fn unfit_value_error(
    at: usize,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(at, Type::Text, Box::new(error))
}
