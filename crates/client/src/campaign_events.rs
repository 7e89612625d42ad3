//! Streams of the events of campaigns.

use std::fmt;

use singletree_protocol::native::{CampaignLogItem, CampaignStreamItem};

use crate::connection::{Connection, ServerApiRequest};
use crate::error::{Error, Result};
use crate::events::{FrameDataStream, stream_failure};

/// A stream of the entries of a campaign's log, in their order.
pub struct CampaignEventStream {
    frames: FrameDataStream,
    last: u64,
}

impl CampaignEventStream {
    pub(crate) async fn open_stream(
        connection: &Connection,
        asked: ServerApiRequest,
        after: u64,
    ) -> Result<Self> {
        let asked = asked.with_header("last-event-id", &after.to_string());
        Ok(Self { frames: FrameDataStream::open_stream(connection, asked).await?, last: after })
    }

    /// Waits for the next entry; none when the stream has ended.
    ///
    /// # Errors
    /// `http_broken_off` and its kin; `client_answer_invalid`; the error that the server sent as the end of the stream,
    /// such as `campaign_unknown` when the campaign was deleted.
    ///
    /// # Cancellation
    /// Dropping the future loses nothing.
    pub async fn next_entry(&mut self) -> Result<Option<CampaignLogItem>> {
        let Some(data) = self.frames.next_data().await? else { return Ok(None) };
        let item: CampaignStreamItem = serde_json::from_str(&data)
            .map_err(|error| Error::Answer { what: format!("an event of the stream: {error}") })?;
        match item {
            CampaignStreamItem::Entry(entry) => {
                self.last = entry.seq;
                Ok(Some(*entry))
            }
            CampaignStreamItem::Failed(failed) => Err(stream_failure(failed)),
        }
    }

    /// Returns the number of the last entry: a new stream after it misses nothing.
    #[must_use]
    pub fn last_entry_number(&self) -> u64 {
        self.last
    }
}

impl fmt::Debug for CampaignEventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CampaignEventStream").field("last", &self.last).finish_non_exhaustive()
    }
}
