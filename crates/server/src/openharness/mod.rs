//! The strict OpenHarness engine (spec: OpenHarness PROTOCOL; D1, D2, D3, D16, D18).
//!
//! # Vocabulary
//! A *wish* is the purpose of a request: send a message, decide a question, or show the state of a run. A *failure*
//! is an answer with an error: the request was a valid message, so HTTP says 200. A *pair* is the two tokens of one
//! question, one for each decision; the *ledger* stores the answers of requests.
//!
//! # Inside
//! `opening` reads the parts of a request that do not depend on the rest; `admission` converts a message to a wish,
//! and `negotiation` its capabilities to terms: both are pure. `engine` runs all of it; `saying`, `deciding` and
//! `showing` execute the three wishes; `directives` converts outcomes. `ledger` answers the same request with the
//! same bytes, `tokens` stores the tokens of questions, `sealed` encrypts stored text with a key that only the
//! requester has. `attachments` gets pictures, `pairing` gives devices keys of their own.

mod admission;
mod answer;
mod approval;
mod attachments;
mod campaigns;
mod capabilities;
mod deciding;
mod digest;
mod directives;
mod engine;
mod environments;
mod failure;
mod ledger;
mod negotiation;
mod opening;
mod pairing;
mod render;
mod saying;
mod sealed;
mod showing;
mod tokens;

use std::time::Duration;

pub use environments::Environments;

use crate::section::{ApiRoute, ProtocolSection};

/// The time for which the same request gets the same answer.
const REQUEST_TTL: Duration = Duration::from_hours(24);

/// The time in which a question without a deadline of its own can be answered.
const QUESTION_TTL: Duration = Duration::from_hours(7 * 24);

/// Returns the section.
pub(crate) fn build_section() -> ProtocolSection {
    let mut routes = vec![
        ApiRoute::post("/v1/openharness", engine::answer_shell_message),
        ApiRoute::post("/openharness", engine::answer_shell_message),
        ApiRoute::get("/v1/openharness/capabilities", capabilities::show_capabilities),
        ApiRoute::get("/openharness/capabilities", capabilities::show_capabilities),
    ];
    routes.extend(pairing::pairing_routes());
    ProtocolSection::new("openharness", render::render_problem, routes)
}
