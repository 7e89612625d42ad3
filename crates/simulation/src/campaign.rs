//! Campaigns of a run: every fourth seed has some, beside its conversations. People look after them, and their agent proposes.

mod person;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use singletree_durable::{SessionId, SessionKey, TenantId};

use crate::fault::RunRestriction;
use crate::random::SimulationRandom;
use crate::tool::SimulatedToolKind;
pub(crate) use person::SimulatedPerson;

/// Seeds with this remainder modulo 4 have campaigns.
const CAMPAIGN_SEED_REMAINDER: u64 = 1;

/// How many cycles a campaign may use at first: so few that some use them up.
pub(crate) const CYCLES: u64 = 12;

/// The name of the agent that proposes.
pub(crate) const WORKER: &str = "worker";

/// The question of a proof.
const QUESTION: &str = "Is it right?";

/// The shape of the campaigns of a run, as its seed draws it.
#[derive(Debug)]
pub(crate) struct SimulatedCampaignSettings {
    /// How many people there are.
    pub(crate) people: usize,
    /// How many campaigns they create at most.
    pub(crate) campaigns: usize,
    /// How many calls they make together.
    calls: u64,
    /// The tasks that the agent plans.
    pub(crate) plan: Value,
}

impl SimulatedCampaignSettings {
    /// Draws the shape; none for a seed without campaigns.
    fn draw(seed: u64, restriction: &RunRestriction) -> Option<Self> {
        if seed % 4 != CAMPAIGN_SEED_REMAINDER {
            return None;
        }
        let random = SimulationRandom::from_name(seed, "campaigns");
        let calls = random.draw_between(10, 60);
        Some(Self {
            people: random.draw_index(3) + 1,
            campaigns: random.draw_index(3) + 1,
            calls: restriction.operations.map_or(calls, |most| calls.min(most)),
            plan: draw_plan(&random),
        })
    }
}

/// Draws one to four tasks, in the order of their needs.
fn draw_plan(random: &SimulationRandom) -> Value {
    let count = random.draw_index(4) + 1;
    let tasks = (0..count).map(|number| {
        let id = format!("t{number}");
        let called = |kind: SimulatedToolKind| {
            let args = json!({ "text": format!("campaign {id}") });
            json!({ "type": "tool_succeeded", "tool": kind.tool_name(), "args": args })
        };
        let proof = match random.draw_index(6) {
            0 => called(SimulatedToolKind::Effect),
            1 => called(SimulatedToolKind::Idempotent),
            2 | 3 => called(SimulatedToolKind::Risky),
            4 => json!({ "type": "artifact_approved", "kind": "text", "key": id }),
            _ => json!({ "type": "user_confirmed", "question": QUESTION }),
        };
        let needs: Vec<String> =
            number.checked_sub(1).map(|before| format!("t{before}")).into_iter().collect();
        json!({ "id": id, "description": format!("Do step {number}."), "needs": needs, "proof": [proof] })
    });
    tasks.collect()
}

/// A campaign of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SimulatedCampaignName {
    pub(crate) tenant: TenantId,
    pub(crate) id: String,
}

impl SimulatedCampaignName {
    /// Returns the key of its session.
    pub(crate) fn session_key(&self) -> Option<SessionKey> {
        let session = SessionId::parse(singletree_campaign::campaign_session(&self.id)).ok()?;
        Some(SessionKey::new(self.tenant.clone(), session))
    }

    /// Returns the name of its session with the tenant, as the ledger has it.
    pub(crate) fn qualified(&self) -> String {
        format!("{}/{}", self.tenant, singletree_campaign::campaign_session(&self.id))
    }
}

/// The kind of a call about a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CampaignCallKind {
    Create,
    Command,
    /// An approval of an artifact: one that it has already changes nothing.
    ApproveArtifact,
    Delete,
}

/// The answer to a call, as its caller understands it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CampaignCallAnswer {
    /// It was carried out.
    Done,
    /// It was refused by this category, so that nothing has changed.
    Refused(String),
    /// It is not known whether it was carried out.
    Unknown,
}

/// A call that a person made. No other call has the same author.
#[derive(Debug, Clone)]
pub(crate) struct CampaignCallRecord {
    pub(crate) campaign: SimulatedCampaignName,
    pub(crate) kind: CampaignCallKind,
    pub(crate) by: String,
    pub(crate) answer: CampaignCallAnswer,
}

/// The campaigns of a run, and the calls about them.
#[derive(Debug)]
pub(crate) struct CampaignWorld {
    pub(crate) settings: SimulatedCampaignSettings,
    begun: AtomicU64,
    ended: AtomicU64,
    known: Mutex<KnownCampaigns>,
}

/// The campaigns and calls that all people know.
#[derive(Debug, Default)]
pub(crate) struct KnownCampaigns {
    /// Those that somebody tried to create.
    pub(crate) campaigns: BTreeSet<SimulatedCampaignName>,
    pub(crate) calls: Vec<CampaignCallRecord>,
}

impl CampaignWorld {
    /// Draws the campaigns of a seed; none for most seeds.
    pub(crate) fn draw(seed: u64, restriction: &RunRestriction) -> Option<Self> {
        let settings = SimulatedCampaignSettings::draw(seed, restriction)?;
        Some(Self { settings, begun: AtomicU64::new(0), ended: AtomicU64::new(0), known: Mutex::default() })
    }

    pub(crate) fn lock_known(&self) -> MutexGuard<'_, KnownCampaigns> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns those that somebody tried to create.
    pub(crate) fn names(&self) -> BTreeSet<SimulatedCampaignName> {
        self.lock_known().campaigns.clone()
    }

    /// Takes one of the calls that are left, and returns its number; none when none is.
    pub(crate) fn take_call(&self) -> Option<u64> {
        let most = self.settings.calls;
        let take = |begun| (begun < most).then_some(begun + 1);
        self.begun.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()
    }

    /// Notes that a call that was taken is over, and the command that followed from it, if one did.
    pub(crate) fn end_call(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Tells whether every call that was taken is over.
    pub(crate) fn is_idle(&self) -> bool {
        self.ended.load(Ordering::Relaxed) == self.begun.load(Ordering::Relaxed)
    }

    /// Tells whether calls are left.
    pub(crate) fn has_calls(&self) -> bool {
        self.begun.load(Ordering::Relaxed) < self.settings.calls
    }
}
