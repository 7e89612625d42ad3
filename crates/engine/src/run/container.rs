//! Progress of the containers of a run: how far each member is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use singletree_graph::{
    ContainerProgress, Item, LineageBoundary, MemberProgress, NodeLineage, StateUpdate, catch_panic,
};

use super::event::ContainerConfig;
use super::fault::NodeError;
use super::strand::SequentialWalk;
use crate::error::{Error, NodeLocation};
use crate::plan::policy::ErrorPolicy;

/// Combines the contributions of a container's members: their updates and errors, in the order of members.
pub(crate) type FanIn = Box<dyn Fn(&[ContainerMember]) -> Result<StateUpdate, NodeError> + Send + Sync>;

/// One attempt of a node whose work is several inner runs.
pub(crate) struct MemberContainer {
    pub(crate) config: ContainerConfig,
    place: NodeLocation,
    /// The boundaries to the node.
    lineage: NodeLineage,
    /// The number of the node's execution on its strand, inside of another container.
    execution: u64,
    /// Guards how far the members are; held for a change, a copy or a fan-in, never across an await.
    members: Mutex<Vec<ContainerMember>>,
    fan_in: FanIn,
}

/// One inner run of a container.
pub(crate) struct ContainerMember {
    boundary: LineageBoundary,
    pub(crate) reached: MemberStage,
}

/// How far a member is.
pub(crate) enum MemberStage {
    NotStarted,
    /// It walks on this strand.
    InFlight(Arc<SequentialWalk>),
    /// It has ended with this update, in terms that the fan-in knows.
    Contributed(StateUpdate),
    /// It has failed, and this is the record of it.
    Failed(Item),
}

/// Returns the contributions of the members that have ended, with their numbers, in order.
pub(crate) fn iter_contributions(members: &[ContainerMember]) -> impl Iterator<Item = (usize, &StateUpdate)> {
    members.iter().enumerate().filter_map(|(at, it)| match &it.reached {
        MemberStage::Contributed(update) => Some((at, update)),
        MemberStage::NotStarted | MemberStage::InFlight(_) | MemberStage::Failed(_) => None,
    })
}

/// The records of the members that failed, in order.
pub(crate) fn collect_failure_records(members: &[ContainerMember]) -> Vec<Item> {
    let failed = members.iter().filter_map(|member| match &member.reached {
        MemberStage::Failed(record) => Some(record.clone()),
        MemberStage::NotStarted | MemberStage::InFlight(_) | MemberStage::Contributed(_) => None,
    });
    failed.collect()
}

impl MemberContainer {
    pub(crate) fn new(
        config: ContainerConfig,
        (place, lineage, execution): (NodeLocation, NodeLineage, u64),
        members: impl IntoIterator<Item = LineageBoundary>,
        fan_in: FanIn,
    ) -> Self {
        let member = |boundary| ContainerMember { boundary, reached: MemberStage::NotStarted };
        let members = Mutex::new(members.into_iter().map(member).collect());
        Self { config, place, lineage, execution, members, fan_in }
    }

    fn lock_members(&self) -> MutexGuard<'_, Vec<ContainerMember>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how far a member is.
    pub(crate) fn set_member_stage(&self, member: u64, reached: MemberStage) {
        let at = usize::try_from(member).expect("members are held in memory");
        self.lock_members()[at].reached = reached;
    }

    /// Tells whether a member has ended.
    pub(crate) fn has_member_ended(&self, member: u64) -> bool {
        let at = usize::try_from(member).expect("members are held in memory");
        match self.lock_members()[at].reached {
            MemberStage::NotStarted | MemberStage::InFlight(_) => false,
            MemberStage::Contributed(_) | MemberStage::Failed(_) => true,
        }
    }

    /// Tells whether this is the container that a saved progress is of: the same execution of the same node, entered
    /// through the same boundaries (pipeline-utilities §10.11).
    pub(crate) fn matches_progress(&self, saved: &ContainerProgress) -> bool {
        self.place.namespace == saved.namespace
            && self.lineage == saved.lineage
            && self.execution == saved.execution
    }

    /// Takes over the stored contributions of members; members that were in flight begin again.
    ///
    /// # Errors
    /// `checkpoint_record_invalid` when there are other members now.
    pub(crate) fn restore_members(&self, saved: ContainerProgress) -> Result<(), Error> {
        let mut members = self.lock_members();
        let same = members.iter().map(|member| &member.boundary).eq(saved.members.iter().map(|(it, _)| it));
        if !same {
            let (node, now, then) = (&self.place.node, members.len(), saved.members.len());
            let reason = format!("node '{node}' has {now} members, and had {then} when it was saved");
            return Err(Error::Position { reason });
        }
        for (member, (_, progress)) in members.iter_mut().zip(saved.members) {
            member.reached = match progress {
                MemberProgress::NotStarted | MemberProgress::InFlight { .. } => MemberStage::NotStarted,
                MemberProgress::Contributed(update) => MemberStage::Contributed(update),
                MemberProgress::Failed(record) => MemberStage::Failed(record),
            };
        }
        Ok(())
    }

    /// Combines the contributions that the members have made so far.
    pub(crate) fn combine_contributions(&self) -> Result<StateUpdate, NodeError> {
        // Values are encoded here, by the application's types.
        catch_panic(|| (self.fan_in)(&self.lock_members())).map_err(NodeError::new)?
    }

    pub(crate) fn error_policy(&self) -> ErrorPolicy {
        match &self.config {
            ContainerConfig::FanOut(config) => config.error_policy,
            ContainerConfig::Branches(config) => config.error_policy,
        }
    }

    /// Returns how far it is, as plain data.
    pub(crate) fn capture_progress(&self) -> ContainerProgress {
        let member = |it: &ContainerMember| {
            let progress = match &it.reached {
                MemberStage::NotStarted => MemberProgress::NotStarted,
                MemberStage::InFlight(strand) => {
                    let (frames, states) = strand.copy_frames_and_states();
                    MemberProgress::InFlight { frames, states, completed: strand.completed_positions() }
                }
                MemberStage::Contributed(update) => MemberProgress::Contributed(update.clone()),
                MemberStage::Failed(record) => MemberProgress::Failed(record.clone()),
            };
            (it.boundary.clone(), progress)
        };
        ContainerProgress {
            namespace: self.place.namespace.clone(),
            lineage: self.lineage.clone(),
            execution: self.execution,
            members: self.lock_members().iter().map(member).collect(),
        }
    }
}
