//! Whether the definition of a tool is the one that was seen first.

use rmcp::model::Tool as Listing;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use singletree_tools::DefinitionPins;

/// How many digits of a digest people are shown.
const SHOWN_DIGITS: usize = 12;

/// The result of comparing the definition of a tool with its pin.
pub(crate) enum PinComparison {
    /// It is the one that was seen first, or is seen for the first time.
    Same,
    /// It is another one, or that cannot be found out.
    Changed {
        /// The notice for the person who is asked to approve a call.
        notice: String,
    },
}

impl PinComparison {
    /// Compares a definition with the one that was seen first.
    pub(crate) async fn compare_with_pin(pins: &dyn DefinitionPins, server: &str, listing: &Listing) -> Self {
        let digest = digest_definition(listing);
        match pins.pin_definition(server, &listing.name, &digest).await {
            Ok(pinned) if pinned == digest => Self::Same,
            Ok(pinned) => {
                let short = |digest: &str| digest.chars().take(SHOWN_DIGITS).collect::<String>();
                let (before, now) = (short(&pinned), short(&digest));
                let notice = format!(
                    "The server {server} has changed the definition of this tool: it was {before}, it is {now}."
                );
                Self::Changed { notice }
            }
            Err(_) => Self::Changed {
                notice: format!("Whether the server {server} has changed this tool is not known now."),
            },
        }
    }
}

/// Digests the parts of a listing that decide the behaviour of a tool and how it is judged.
fn digest_definition(listing: &Listing) -> String {
    // Objects of JSON values keep their keys sorted, at any depth: equal definitions are equal text.
    let said: Value = json!({
        "name": listing.name,
        "title": listing.title,
        "description": listing.description,
        "input": listing.input_schema,
        "output": listing.output_schema,
        "annotations": listing.annotations,
    });
    Sha256::digest(said.to_string()).iter().map(|byte| format!("{byte:02x}")).collect()
}
