//! Progress of the containers of a run: how far each member is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::event::ContainerConfig;
use super::fault::NodeError;
use super::port::{ContainerProgress, MemberProgress};
use super::strand::Strand;
use crate::error::{Error, Place};
use crate::plan::guard::caught;
use crate::plan::item::Item;
use crate::plan::lineage::{Boundary, Lineage};
use crate::plan::policy::ErrorPolicy;
use crate::plan::update::Update;

/// Combines the contributions of a container's members: their updates and errors, in the order of members.
pub(crate) type FanIn = Box<dyn Fn(&[Member]) -> Result<Update, NodeError> + Send + Sync>;

/// One attempt of a node whose work is several inner runs.
pub(crate) struct Container {
    pub(crate) config: ContainerConfig,
    place: Place,
    /// The boundaries to the node.
    lineage: Lineage,
    /// The number of the node's execution on its strand, inside of another container.
    execution: u64,
    /// Guards how far the members are; held for a change, a copy or a fan-in, never across an await.
    members: Mutex<Vec<Member>>,
    fan_in: FanIn,
}

/// One inner run of a container.
pub(crate) struct Member {
    boundary: Boundary,
    pub(crate) reached: Reached,
}

/// How far a member is.
pub(crate) enum Reached {
    NotStarted,
    /// It walks on this strand.
    InFlight(Arc<Strand>),
    /// It has ended with this update, in terms that the fan-in knows.
    Contributed(Update),
    /// It has failed, and this is the record of it.
    Failed(Item),
}

/// Returns the contributions of the members that have ended, with their numbers, in order.
pub(crate) fn contributions(members: &[Member]) -> impl Iterator<Item = (usize, &Update)> {
    members.iter().enumerate().filter_map(|(at, it)| match &it.reached {
        Reached::Contributed(update) => Some((at, update)),
        Reached::NotStarted | Reached::InFlight(_) | Reached::Failed(_) => None,
    })
}

/// The records of the members that failed, in order.
pub(crate) fn records(members: &[Member]) -> Vec<Item> {
    let failed = members.iter().filter_map(|member| match &member.reached {
        Reached::Failed(record) => Some(record.clone()),
        Reached::NotStarted | Reached::InFlight(_) | Reached::Contributed(_) => None,
    });
    failed.collect()
}

impl Container {
    pub(crate) fn new(
        config: ContainerConfig,
        (place, lineage, execution): (Place, Lineage, u64),
        members: impl IntoIterator<Item = Boundary>,
        fan_in: FanIn,
    ) -> Self {
        let member = |boundary| Member { boundary, reached: Reached::NotStarted };
        let members = Mutex::new(members.into_iter().map(member).collect());
        Self { config, place, lineage, execution, members, fan_in }
    }

    fn members(&self) -> MutexGuard<'_, Vec<Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how far a member is.
    pub(crate) fn reach(&self, member: u64, reached: Reached) {
        let at = usize::try_from(member).expect("members are held in memory");
        self.members()[at].reached = reached;
    }

    /// Tells whether a member has ended.
    pub(crate) fn has_ended(&self, member: u64) -> bool {
        let at = usize::try_from(member).expect("members are held in memory");
        match self.members()[at].reached {
            Reached::NotStarted | Reached::InFlight(_) => false,
            Reached::Contributed(_) | Reached::Failed(_) => true,
        }
    }

    /// Tells whether this is the container that a saved progress is of: the same execution of the same node, entered
    /// through the same boundaries (pipeline-utilities §10.11).
    pub(crate) fn is(&self, saved: &ContainerProgress) -> bool {
        self.place.namespace == saved.namespace
            && self.lineage == saved.lineage
            && self.execution == saved.execution
    }

    /// Takes over the stored contributions of members; members that were in flight begin again.
    ///
    /// # Errors
    /// `checkpoint_record_invalid` when there are other members now.
    pub(crate) fn restore(&self, saved: ContainerProgress) -> Result<(), Error> {
        let mut members = self.members();
        let same = members.iter().map(|member| &member.boundary).eq(saved.members.iter().map(|(it, _)| it));
        if !same {
            let (node, now, then) = (&self.place.node, members.len(), saved.members.len());
            let reason = format!("node '{node}' has {now} members, and had {then} when it was saved");
            return Err(Error::Position { reason });
        }
        for (member, (_, progress)) in members.iter_mut().zip(saved.members) {
            member.reached = match progress {
                MemberProgress::NotStarted | MemberProgress::InFlight { .. } => Reached::NotStarted,
                MemberProgress::Contributed(update) => Reached::Contributed(update),
                MemberProgress::Failed(record) => Reached::Failed(record),
            };
        }
        Ok(())
    }

    /// Combines the contributions that the members have made so far.
    pub(crate) fn gathered(&self) -> Result<Update, NodeError> {
        // Values are encoded here, by the application's types.
        caught(|| (self.fan_in)(&self.members())).map_err(NodeError::new)?
    }

    pub(crate) fn error_policy(&self) -> ErrorPolicy {
        match &self.config {
            ContainerConfig::FanOut(config) => config.error_policy,
            ContainerConfig::Branches(config) => config.error_policy,
        }
    }

    /// Returns how far it is, as plain data.
    pub(crate) fn progress(&self) -> ContainerProgress {
        let member = |it: &Member| {
            let progress = match &it.reached {
                Reached::NotStarted => MemberProgress::NotStarted,
                Reached::InFlight(strand) => {
                    let (frames, states) = strand.frames();
                    MemberProgress::InFlight { frames, states, completed: strand.completed() }
                }
                Reached::Contributed(update) => MemberProgress::Contributed(update.clone()),
                Reached::Failed(record) => MemberProgress::Failed(record.clone()),
            };
            (it.boundary.clone(), progress)
        };
        ContainerProgress {
            namespace: self.place.namespace.clone(),
            lineage: self.lineage.clone(),
            execution: self.execution,
            members: self.members().iter().map(member).collect(),
        }
    }
}
