//! Bodies of requests: JSON, read so that a mistake is told with its place.

use axum::body::Bytes;
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// Reads a body as JSON of a shape.
///
/// # Errors
/// `server_request_invalid` with the place of the mistake.
pub(crate) fn json<T: DeserializeOwned>(body: &Bytes) -> Result<T, Problem> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|it| {
        let place = it.path().to_string();
        let problem = Problem::invalid(format!("the body is not what is expected: {}", it.inner()));
        if place == "." { problem } else { problem.field(place) }
    })?;
    reader.end().map_err(|_| Problem::invalid("the body goes on behind its JSON"))?;
    Ok(value)
}
