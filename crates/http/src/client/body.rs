//! The body of an answer, within its limits.

use bytes::Bytes;
use futures_util::StreamExt;

use crate::address::HostAndPort;
use crate::error::{Error, Result};
use crate::limits::HttpLimits;
use crate::transport::BoxStream;

struct LimitedBody<S> {
    pieces: S,
    host: HostAndPort,
    limits: HttpLimits,
    seen: u64,
}

/// Returns the pieces of a body as they arrive. Ends after an error; dropping it closes the connection.
pub(super) fn limited_body_stream(
    response: reqwest::Response,
    host: HostAndPort,
    limits: HttpLimits,
) -> BoxStream<'static, Result<Bytes>> {
    let pieces = Box::pin(response.bytes_stream());
    let body = LimitedBody { pieces, host, limits, seen: 0 };
    let pieces = futures_util::stream::unfold(Some(body), |body| async move {
        let mut body = body?;
        match body.read_next_piece().await? {
            Ok(piece) => Some((Ok(piece), Some(body))),
            Err(error) => Some((Err(error), None)),
        }
    });
    Box::pin(pieces.fuse())
}

impl<S> LimitedBody<S>
where
    S: futures_core::Stream<Item = reqwest::Result<Bytes>> + Unpin,
{
    async fn read_next_piece(&mut self) -> Option<Result<Bytes>> {
        let Ok(piece) = tokio::time::timeout(self.limits.idle, self.pieces.next()).await else {
            return Some(Err(self.host.timeout_error("the next piece of the answer", self.limits.idle)));
        };
        Some(match piece? {
            Ok(piece) => self.count_piece_bytes(piece),
            Err(error) => {
                Err(Error::Broken { host: self.host.to_string(), source: error.without_url().into() })
            }
        })
    }

    fn count_piece_bytes(&mut self, piece: Bytes) -> Result<Bytes> {
        self.seen = self.seen.saturating_add(piece.len() as u64);
        if self.seen > self.limits.body_bytes {
            return Err(Error::TooLarge { host: self.host.to_string(), limit: self.limits.body_bytes });
        }
        Ok(piece)
    }
}
