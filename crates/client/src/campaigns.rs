//! The native API of campaigns, call by call.

use serde::Serialize;
use serde::de::DeserializeOwned;
use singletree_protocol::native::{
    AddSchedule, ApproveArtifact, ApprovePlan, Artifact, ArtifactSummaryList, CampaignCommand,
    CampaignDetail, CampaignLogPage, CampaignPage, CampaignPlan, CampaignTaskPage, CreateCampaign, EditPlan,
    RejectPlan, ScheduleInfo, ScheduleInfoList, TemplateList,
};

use crate::campaign_events::CampaignEventStream;
use crate::client::with_idempotency_key;
use crate::connection::{Connection, ServerApiRequest};
use crate::error::Result;

/// A client of the campaigns of a server. Cheap to clone.
///
/// Every call can fail with any category of [`Error`](crate::Error); where the server refused, it is the server's own:
/// `campaign_unknown` for a campaign that is not there, `campaign_changed` where somebody else was first.
///
/// # Cancellation
/// Dropping a call ends it on this side. A request that the server has received by then may be carried out.
#[derive(Debug, Clone)]
pub struct CampaignClient {
    connection: Connection,
}

/// The body of a request that has nothing to say.
#[derive(Debug, Serialize)]
struct EmptyBody {}

impl CampaignClient {
    /// Makes a client over a connection.
    #[must_use]
    pub fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// Creates a campaign.
    ///
    /// # Errors
    /// As all calls.
    pub async fn create_campaign(&self, campaign: &CreateCampaign) -> Result<CampaignDetail> {
        self.post_json(&["v1", "campaigns"], campaign).await
    }

    /// Lists campaigns by id, from the `next` of the page before on.
    ///
    /// # Errors
    /// As all calls.
    pub async fn list_campaigns(&self, from: Option<&str>, limit: Option<u64>) -> Result<CampaignPage> {
        let limit = limit.map(|limit| limit.to_string());
        let asked = self.get_request(&["v1", "campaigns"]).with_query("from", from);
        self.connection.request_json(asked.with_query("limit", limit.as_deref())).await
    }

    /// Lists the templates of campaigns.
    ///
    /// # Errors
    /// As all calls.
    pub async fn list_templates(&self) -> Result<TemplateList> {
        self.connection.request_json(self.get_request(&["v1", "campaign-templates"])).await
    }

    /// Shows a campaign.
    ///
    /// # Errors
    /// As all calls.
    pub async fn fetch_campaign(&self, id: &str) -> Result<CampaignDetail> {
        self.get_json(&["v1", "campaigns", id]).await
    }

    /// Deletes a campaign with everything of it. Needs the scope `admin`.
    ///
    /// # Errors
    /// As all calls.
    pub async fn delete_campaign(&self, id: &str) -> Result<()> {
        let url = self.connection.url_below(&["v1", "campaigns", id]);
        self.connection.request_body(ServerApiRequest::delete(url)).await.map(drop)
    }

    /// Shows the newest version of the plan: all that an approval is about.
    ///
    /// # Errors
    /// As all calls; `campaign_plan_invalid` (404) when there is none yet.
    pub async fn fetch_plan(&self, id: &str) -> Result<CampaignPlan> {
        self.get_json(&["v1", "campaigns", id, "plan"]).await
    }

    /// Replaces the plan by another version, which nobody has approved.
    ///
    /// # Errors
    /// As all calls.
    pub async fn edit_plan(&self, id: &str, edit: &EditPlan) -> Result<CampaignPlan> {
        let url = self.connection.url_below(&["v1", "campaigns", id, "plan"]);
        self.connection.request_json(ServerApiRequest::put(url, edit)?).await
    }

    /// Approves the plan: exactly the version with this digest. Needs the scope `approve`.
    ///
    /// # Errors
    /// As all calls.
    pub async fn approve_plan(&self, id: &str, approval: &ApprovePlan) -> Result<CampaignDetail> {
        self.post_json(&["v1", "campaigns", id, "plan", "approve"], approval).await
    }

    /// Rejects the plan. Needs the scope `approve`.
    ///
    /// # Errors
    /// As all calls.
    pub async fn reject_plan(&self, id: &str, rejection: &RejectPlan) -> Result<CampaignDetail> {
        self.post_json(&["v1", "campaigns", id, "plan", "reject"], rejection).await
    }

    /// Pauses a campaign.
    ///
    /// # Errors
    /// As all calls.
    pub async fn pause_campaign(&self, id: &str) -> Result<CampaignDetail> {
        self.post_json(&["v1", "campaigns", id, "pause"], &EmptyBody {}).await
    }

    /// Resumes a campaign that is paused or in `error`.
    ///
    /// # Errors
    /// As all calls.
    pub async fn resume_campaign(&self, id: &str) -> Result<CampaignDetail> {
        self.post_json(&["v1", "campaigns", id, "resume"], &EmptyBody {}).await
    }

    /// Cancels a campaign for good. Needs the scope `admin`.
    ///
    /// # Errors
    /// As all calls.
    pub async fn cancel_campaign(&self, id: &str) -> Result<CampaignDetail> {
        self.post_json(&["v1", "campaigns", id, "cancel"], &EmptyBody {}).await
    }

    /// Gives a command. With a key the server carries it out once, however often it is sent.
    ///
    /// # Errors
    /// As all calls.
    pub async fn give_command(
        &self,
        id: &str,
        command: &CampaignCommand,
        key: Option<&str>,
    ) -> Result<CampaignDetail> {
        let url = self.connection.url_below(&["v1", "campaigns", id, "commands"]);
        let asked = ServerApiRequest::post(url, command)?;
        self.connection.request_json(with_idempotency_key(asked, key)).await
    }

    /// Lists tasks in the order of the plan, from a place on.
    ///
    /// # Errors
    /// As all calls.
    pub async fn list_tasks(&self, id: &str, from: u64, limit: Option<u64>) -> Result<CampaignTaskPage> {
        let (from, limit) = (from.to_string(), limit.map(|limit| limit.to_string()));
        let asked = self.get_request(&["v1", "campaigns", id, "tasks"]).with_query("from", Some(&from));
        self.connection.request_json(asked.with_query("limit", limit.as_deref())).await
    }

    /// Lists all versions of the artifacts of a campaign, without their contents.
    ///
    /// # Errors
    /// As all calls.
    pub async fn list_campaign_artifacts(&self, id: &str) -> Result<ArtifactSummaryList> {
        self.get_json(&["v1", "campaigns", id, "artifacts"]).await
    }

    /// Shows a version of an artifact with its content.
    ///
    /// # Errors
    /// As all calls; `artifact_refused` (404) if there is none of this name.
    pub async fn fetch_campaign_artifact(
        &self,
        id: &str,
        (kind, key, version): (&str, &str, u64),
    ) -> Result<Artifact> {
        let version = version.to_string();
        self.get_json(&["v1", "campaigns", id, "artifacts", kind, key, &version]).await
    }

    /// Approves one version of an artifact, by the digest of what was read. Needs the scope `approve`.
    ///
    /// # Errors
    /// As all calls; `artifact_refused` if there is none of this name, or it says something else.
    pub async fn approve_campaign_artifact(&self, id: &str, approval: &ApproveArtifact) -> Result<Artifact> {
        self.post_json(&["v1", "campaigns", id, "artifacts", "approve"], approval).await
    }

    /// Lists the schedules of a campaign.
    ///
    /// # Errors
    /// As all calls.
    pub async fn list_schedules(&self, id: &str) -> Result<ScheduleInfoList> {
        self.get_json(&["v1", "campaigns", id, "schedules"]).await
    }

    /// Adds a schedule to a campaign.
    ///
    /// # Errors
    /// As all calls.
    pub async fn add_schedule(&self, id: &str, schedule: &AddSchedule) -> Result<ScheduleInfo> {
        self.post_json(&["v1", "campaigns", id, "schedules"], schedule).await
    }

    /// Removes a schedule of a campaign.
    ///
    /// # Errors
    /// As all calls.
    pub async fn remove_schedule(&self, id: &str, schedule: &str) -> Result<()> {
        let url = self.connection.url_below(&["v1", "campaigns", id, "schedules", schedule]);
        self.connection.request_body(ServerApiRequest::delete(url)).await.map(drop)
    }

    /// Reads the log of a campaign after an entry; 0 is the beginning.
    ///
    /// # Errors
    /// As all calls.
    pub async fn read_log(&self, id: &str, after: u64, limit: Option<u64>) -> Result<CampaignLogPage> {
        let (after, limit) = (after.to_string(), limit.map(|limit| limit.to_string()));
        let asked = self.get_request(&["v1", "campaigns", id, "log"]).with_query("after", Some(&after));
        self.connection.request_json(asked.with_query("limit", limit.as_deref())).await
    }

    /// Follows the log of a campaign after an entry. The stream ends when the server ends it or the connection breaks;
    /// resume it after [`CampaignEventStream::last_entry_number`].
    ///
    /// # Errors
    /// As all calls, here or in the stream.
    pub async fn follow_campaign(&self, id: &str, after: u64) -> Result<CampaignEventStream> {
        let asked = self.get_request(&["v1", "campaigns", id, "events"]);
        CampaignEventStream::open_stream(&self.connection, asked, after).await
    }

    fn get_request(&self, parts: &[&str]) -> ServerApiRequest {
        ServerApiRequest::get(self.connection.url_below(parts))
    }

    async fn get_json<T: DeserializeOwned>(&self, parts: &[&str]) -> Result<T> {
        self.connection.request_json(self.get_request(parts)).await
    }

    async fn post_json<T: DeserializeOwned>(&self, parts: &[&str], body: &impl Serialize) -> Result<T> {
        let asked = ServerApiRequest::post(self.connection.url_below(parts), body)?;
        self.connection.request_json(asked).await
    }
}
