//! Paths for the `Location` header.

/// Returns the path of a session.
pub(crate) fn session_location(session: &str) -> String {
    join_api_path(&["sessions", session])
}

/// Returns the path of a campaign.
pub(crate) fn campaign_location(campaign: &str) -> String {
    join_api_path(&["campaigns", campaign])
}

/// Returns the path of a turn.
pub(crate) fn turn_location(session: &str, turn: &str) -> String {
    join_api_path(&["sessions", session, "turns", turn])
}

fn join_api_path(segments: &[&str]) -> String {
    let mut place = url::Url::parse("http://host/v1").expect("it is a URL");
    if let Ok(mut path) = place.path_segments_mut() {
        path.extend(segments);
    }
    place.path().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_one_path_whatever_the_id() {
        assert_eq!(session_location("a"), "/v1/sessions/a");
        assert_eq!(session_location("a/b ?#%\u{e9}"), "/v1/sessions/a%2Fb%20%3F%23%25%C3%A9");
        assert_eq!(turn_location("s", "t.1"), "/v1/sessions/s/turns/t.1");
    }
}
