//! Artifacts: a person approves one, and the board knows it.

use super::resume_by_news;
use crate::board::CampaignBoard;
use crate::event::CampaignEvent;

/// Records that a person with the scope `approve` has approved a version of an artifact of the campaign. The artifact
/// itself is kept beside the log.
#[must_use]
pub fn record_artifact_approval(
    board: &CampaignBoard,
    (kind, key, version): (&str, &str, u64),
    by: &str,
) -> Vec<CampaignEvent> {
    let approved = CampaignEvent::ArtifactApproved {
        kind: kind.to_owned(),
        key: key.to_owned(),
        version,
        by: by.to_owned(),
    };
    std::iter::once(approved).chain(resume_by_news(board, by)).collect()
}
