//! The id of a request: the caller's own, or a new one.

use axum::extract::Request;
use singletree_engine::IdGenerator;

/// The header with the id, in requests and responses.
pub(crate) const HEADER: &str = "x-request-id";

/// The maximum length of a caller's own id, in bytes.
const LONGEST: usize = 128;

/// Returns the caller's own id for a request, if it is fit for logs and headers, otherwise a new one.
pub(crate) fn choose_request_id(request: &Request, ids: &dyn IdGenerator) -> String {
    let own = request.headers().get(HEADER).and_then(|header| header.to_str().ok());
    own.filter(|own| is_valid_id(own)).map_or_else(|| ids.generate_uuid(), ToOwned::to_owned)
}

fn is_valid_id(id: &str) -> bool {
    let fit = |it: u8| it.is_ascii_alphanumeric() || b"-_.:".contains(&it);
    !id.is_empty() && id.len() <= LONGEST && id.bytes().all(fit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_over_when_it_can_stand_in_a_log() {
        let check = |id: &str, fit: bool| assert_eq!(is_valid_id(id), fit, "{id:?}");
        check("4b1d9e0c-7f9a-4c07-9a56-2f3f3d0e8a11", true);
        check("trace:17_a.b", true);
        check("", false);
        check("two words", false);
        check("<script>", false);
        check(&"x".repeat(128), true);
        check(&"x".repeat(129), false);
    }
}
