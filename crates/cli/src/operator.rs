//! How commands beside a server that runs reach it: through a file that only its user can read.
//!
//! One process writes to a database. Other commands that write while a server has it open go through the server: it
//! leaves its address beside the database, with the key of its operator, which is drawn at each start and is void
//! once the server ends.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use singletree::http::{HttpClient, HttpLimits, HttpRequest, Method, Secret, Transport, read_body};
use singletree_protocol::native::ErrorBody;

use crate::error::{Error, Result};
use crate::place::{DatabaseLocation, DatabaseName, write_private_file};

/// Bytes of the longest answer that is read.
const ANSWER_BYTES: u64 = 8 << 20;

/// How long a server of this machine may take to take a connection.
const CONNECT_TIME: Duration = Duration::from_secs(2);

/// The content of the file that a server leaves beside its database.
#[derive(Serialize, Deserialize)]
struct OperatorFileContent {
    url: String,
    /// Where its listener for administration is.
    #[serde(default)]
    admin: Option<String>,
    key: String,
}

/// The file of a server that runs; gone with it.
#[derive(Debug)]
pub(crate) struct OperatorFile {
    path: std::path::PathBuf,
    line: String,
}

impl OperatorFile {
    /// Leaves where a server is, and with which key its operator is known.
    pub(crate) fn write_beside_database(
        place: &DatabaseLocation,
        (at, admin): (SocketAddr, SocketAddr),
        key: &Secret,
    ) -> Result<Self> {
        let path = place.operator_file_path();
        let admin = Some(local_server_url(admin));
        let left = OperatorFileContent { url: local_server_url(at), admin, key: key.expose().to_owned() };
        let line = serde_json::to_string(&left).map_err(|error| Error::Output(error.into()))?;
        write_private_file(&path, &line).map_err(|source| Error::Place {
            doing: "say where the server is in",
            path: path.clone(),
            source,
        })?;
        Ok(Self { path, line })
    }
}

impl Drop for OperatorFile {
    fn drop(&mut self) {
        // Another server over the same PostgreSQL database may have replaced it.
        if fs::read_to_string(&self.path).is_ok_and(|line| line.trim_end() == self.line) {
            // One that is left says nothing: its key died with its server.
            fs::remove_file(&self.path).unwrap_or_default();
        }
    }
}

/// Returns the address at which this machine reaches a server.
pub(crate) fn local_server_url(at: SocketAddr) -> String {
    match (at.ip().is_unspecified(), at.is_ipv4()) {
        (true, true) => format!("http://127.0.0.1:{}", at.port()),
        (true, false) => format!("http://[::1]:{}", at.port()),
        (false, _) => format!("http://{at}"),
    }
}

/// A server that is asked with a key.
#[derive(Debug)]
pub(crate) struct OperatorClient {
    client: HttpClient,
    url: String,
    key: Secret,
}

impl OperatorClient {
    /// Reaches a server at an address.
    pub(crate) fn new(url: &str, key: Secret) -> Result<Self> {
        let client = HttpClient::new(HttpLimits::fetching())?;
        Ok(Self { client, url: url.trim_end_matches('/').to_owned(), key })
    }

    /// Reaches the server that has a database open; none when none says that it has.
    pub(crate) fn find_for_database(place: &DatabaseLocation) -> Result<Option<Self>> {
        let Some(left) = read_operator_file(&place.operator_file_path()) else { return Ok(None) };
        // Whoever else takes all connections of the server, this one is left.
        Self::new(left.admin.as_deref().unwrap_or(&left.url), Secret::new(left.key)).map(Some)
    }

    /// Asks, and reads the answer.
    pub(crate) async fn request_json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T> {
        let mut headers = vec![("authorization".to_owned(), format!("Bearer {}", self.key.expose()))];
        let body = match body {
            Some(body) => {
                headers.push(("content-type".to_owned(), "application/json".to_owned()));
                Bytes::from(serde_json::to_vec(body).map_err(|error| Error::Output(error.into()))?)
            }
            None => Bytes::new(),
        };
        let request = HttpRequest { method, url: format!("{}{path}", self.url), headers, body };
        let response = self.client.send(request).await?;
        let status = response.status;
        let answer = read_body(response.body, ANSWER_BYTES, &self.url).await?;
        let strange = || Error::Usage(format!("{} is no server of singletree", self.url));
        if (200..300).contains(&status) {
            return serde_json::from_slice(&answer).map_err(|_| strange());
        }
        let ErrorBody { error } = serde_json::from_slice(&answer).map_err(|_| strange())?;
        Err(Error::Answered { category: error.category, text: error.message })
    }
}

/// Returns where the server is that says that it has a database open.
pub(crate) fn find_server_url(place: &DatabaseLocation) -> Option<String> {
    Some(read_operator_file(&place.operator_file_path())?.url)
}

/// Returns where the server is that this user has started here over a PostgreSQL database, if it takes connections. Such a
/// database takes writes beside a server, but not to sessions that the server holds.
pub(crate) async fn find_shared_server_url(place: &DatabaseLocation) -> Option<String> {
    let url = match place.name() {
        DatabaseName::File(_) => return None,
        DatabaseName::Postgres(..) => find_server_url(place)?,
    };
    let at: SocketAddr = url.strip_prefix("http://")?.parse().ok()?;
    let connecting = tokio::net::TcpStream::connect(at);
    // The file may be left from a server that was killed.
    tokio::time::timeout(CONNECT_TIME, connecting).await.ok()?.ok().map(|_| url)
}

fn read_operator_file(path: &Path) -> Option<OperatorFileContent> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}
