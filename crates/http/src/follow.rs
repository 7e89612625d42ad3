//! Redirects, hop by hop.

use bytes::Bytes;
use url::Url;

use crate::address::{self, HostAndPort};
use crate::error::{Error, Result};
use crate::transport::{HttpRequest, HttpResponse, Method, Transport};

/// Reads an address and follows up to `hops_max` redirects; returns the last address and its response.
///
/// Each hop is a call of its own through the transport, so that a client for public addresses checks each of them. No
/// header of the caller and no credential is sent. From `https` nothing goes back to `http`.
///
/// # Errors
///
/// - any category of [`Error`], of any hop;
/// - `http_egress_denied` beyond `hops_max`, and for a step back to `http`;
/// - `http_request_invalid` for a redirect whose target is not a valid address.
///
/// # Cancellation
///
/// Dropping the future ends the call.
pub async fn get_following(
    transport: &dyn Transport,
    url: &str,
    hops_max: usize,
) -> Result<(String, HttpResponse)> {
    let mut at = address::parse_http_url(url)?;
    for _ in 0..=hops_max {
        let request =
            HttpRequest { method: Method::Get, url: at.to_string(), headers: Vec::new(), body: Bytes::new() };
        let response = transport.send(request).await?;
        let Some(next) = redirect_location(&response) else {
            return Ok((at.to_string(), response));
        };
        at = resolve_redirect(&at, next)?;
    }
    Err(egress_denied_error(&at, format!("more than {hops_max} redirects lead there")))
}

/// Returns where an answer points to.
fn redirect_location(response: &HttpResponse) -> Option<&str> {
    match response.status {
        301 | 302 | 303 | 307 | 308 => response.header("location"),
        _ => None,
    }
}

fn resolve_redirect(from: &Url, location: &str) -> Result<Url> {
    let next = from.join(location).map_err(|error| Error::Request {
        problem: format!("the redirect of {} does not read: {error}", HostAndPort::from_url(from)),
    })?;
    address::check_http_url(&next)?;
    if from.scheme() == "https" && next.scheme() == "http" {
        return Err(egress_denied_error(&next, "the redirect gives up https".to_owned()));
    }
    Ok(next)
}

fn egress_denied_error(url: &Url, reason: String) -> Error {
    Error::Egress { host: HostAndPort::from_url(url).into(), reason }
}
