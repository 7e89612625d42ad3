//! An OpenHarness engine over HTTP (spec: OpenHarness profile http-transport).

use serde::de::DeserializeOwned;
use serde_json::Value;
use singletree_protocol::openharness::{
    NAMESPACE, PairClaim, PairConfirm, PairCreate, PairCreated, PairRevoke, Paired, RequestMessage,
    ResponseMessage, TruthTable, parse_json_object,
};
use url::Url;

use crate::connection::{Connection, ServerApiRequest};
use crate::error::{Error, Result, ServerRefusal};
use crate::retry::EngineRetry;

/// Where an engine is below the address of its server, unless the address says more.
const PATH: [&str; 2] = ["v1", "openharness"];

/// A client of an OpenHarness engine. Cheap to clone.
#[derive(Debug, Clone)]
pub struct EngineClient {
    connection: Connection,
    endpoint: Url,
    retry: EngineRetry,
}

/// How a device stands that asked for a key of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceKeyStatus {
    /// Nobody has confirmed it yet.
    Waiting,
    /// The code was confirmed; this is the credential of the device.
    Paired(Box<Paired>),
}

impl EngineClient {
    /// Makes a client of the engine at a connection's address; of a bare server, at `/v1/openharness` there.
    #[must_use]
    pub fn new(connection: Connection, retry: EngineRetry) -> Self {
        let bare = matches!(connection.base_url().path(), "" | "/");
        let endpoint = if bare { connection.url_below(&PATH) } else { connection.base_url().clone() };
        Self { connection, endpoint, retry }
    }

    /// Sends a request. Sends it again while the engine calls its error retryable or the engine cannot be reached; a
    /// request without an id is sent once. An error of the engine is a response.
    ///
    /// # Errors
    /// `http_unreachable` and its kin when the engine cannot be reached; `client_answer_invalid` when the body is no
    /// response to this request: no message, another version, or another id.
    ///
    /// # Cancellation
    /// Dropping the call ends it on this side; the engine may have accepted the request, and the same request returns
    /// its result.
    pub async fn send_request(&self, request: &RequestMessage) -> Result<ResponseMessage> {
        let mut made = 1;
        loop {
            let answer = self.send_request_once(request).await;
            let again = match &answer {
                // Without an id it would be another request.
                _ if request.request_id.is_none() => false,
                Ok(answer) => answer.response.error.as_ref().and_then(|error| error.retryable) == Some(true),
                Err(Error::Http(error)) => {
                    matches!(error.category(), "http_unreachable" | "http_timeout" | "http_broken_off")
                }
                Err(_) => false,
            };
            if !again || !self.retry.pause_before_retry(made).await {
                return answer;
            }
            made += 1;
        }
    }

    async fn send_request_once(&self, request: &RequestMessage) -> Result<ResponseMessage> {
        let (status, body) = self
            .connection
            .request_any_status(ServerApiRequest::post(self.endpoint.clone(), request)?)
            .await?;
        let wrong = |what: String| Error::Answer { what };
        let answer = ResponseMessage::from_json_bytes(&body);
        let answer = answer.map_err(|error| wrong(format!("status {status}, and no message: {error}")))?;
        if !answer.protocol_version.is_supported() {
            return Err(wrong(format!("it is of the version {}", answer.protocol_version)));
        }
        // The id may be left out: the connection already ties the answer to the request. Another id is a mistake.
        let is_other = answer.request_id.is_some() && answer.request_id != request.request_id;
        if is_other {
            return Err(wrong("it is to another request".to_owned()));
        }
        Ok(answer)
    }

    /// Requests the capabilities of the engine.
    ///
    /// # Errors
    /// As [`EngineClient::send_request`].
    pub async fn request_capabilities(&self) -> Result<TruthTable> {
        let (_, body) = self
            .connection
            .request_any_status(ServerApiRequest::get(self.url_below(&["capabilities"])))
            .await?;
        let answer = ResponseMessage::from_json_bytes(&body)
            .map_err(|error| Error::Answer { what: error.to_string() })?;
        let table = answer.extensions.and_then(|mut it| it.remove(NAMESPACE)).unwrap_or_default();
        serde_json::from_value(table).map_err(|error| Error::Answer { what: format!("its table: {error}") })
    }

    /// Requests a pairing code to show: the first step of a device that has no key.
    ///
    /// # Errors
    /// As [`EngineClient::send_request`], and the errors with which the engine refuses.
    pub async fn pair_create(&self, device: &PairCreate) -> Result<PairCreated> {
        self.send_pairing_step("create", device).await
    }

    /// Says that a code is that of a device of one's own.
    ///
    /// # Errors
    /// As [`EngineClient::pair_create`].
    pub async fn pair_confirm(&self, confirm: &PairConfirm) -> Result<Paired> {
        self.send_pairing_step("confirm", confirm).await
    }

    /// Asks for the key, which is there once somebody has confirmed the code.
    ///
    /// # Errors
    /// As [`EngineClient::pair_create`].
    pub async fn pair_claim(&self, claim: &PairClaim) -> Result<DeviceKeyStatus> {
        let answer: Value = self.send_pairing_step("claim", claim).await?;
        if answer.get("access_token").is_none() {
            return Ok(DeviceKeyStatus::Waiting);
        }
        let paired =
            serde_json::from_value(answer).map_err(|error| Error::Answer { what: error.to_string() })?;
        Ok(DeviceKeyStatus::Paired(Box::new(paired)))
    }

    /// Takes a device's key back.
    ///
    /// # Errors
    /// As [`EngineClient::pair_create`].
    pub async fn pair_revoke(&self, revoke: &PairRevoke) -> Result<()> {
        self.send_pairing_step::<Value>("revoke", revoke).await.map(drop)
    }

    async fn send_pairing_step<T: DeserializeOwned>(
        &self,
        step: &str,
        body: &impl serde::Serialize,
    ) -> Result<T> {
        let asked = ServerApiRequest::post(self.url_below(&["pair", step]), body)?;
        let (status, body) = self.connection.request_any_status(asked).await?;
        let answer = ResponseMessage::from_json_bytes(&body)
            .map_err(|error| Error::Answer { what: error.to_string() })?;
        if let Some(error) = answer.response.error {
            return Err(Error::Refused(Box::new(ServerRefusal {
                status,
                category: error.code,
                bucket: None,
                message: error.message.unwrap_or_default(),
                hint: None,
                retry_after: None,
                turn: None,
            })));
        }
        parse_json_object(&body).map_err(|error| Error::Answer { what: error.to_string() })
    }

    fn url_below(&self, parts: &[&str]) -> Url {
        let mut url = self.endpoint.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(parts);
        }
        url
    }
}
