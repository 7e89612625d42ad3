//! Faults of the protocol of leases, which are planted to see whether the simulation finds them.

/// A fault in the protocol, to see whether the simulation finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseFault {
    /// A session is read before its fence is raised.
    ReadBeforeFence,
    /// A commit whose outcome is unknown is looked up by a read, and may still land behind it.
    OutcomeRead,
    /// A commit is taken although another process owns the session.
    FenceNotChecked,
    /// The turns of a process that is alive are taken over.
    LivingOwnerReplaced,
    /// The turns of a dead process are left.
    DeadOwnerKept,
    /// A process answers from memory although its lease may have ended.
    OverdueLeaseTrusted,
    /// A process that counts as dead goes on as the same owner.
    EndedLeaseRenewed,
    /// A process counts as dead when its time has passed by the clock of the store.
    StoreClockTrusted,
}

impl LeaseFault {
    /// All of them, by their names.
    pub const ALL: &[(&str, Self)] = &[
        ("read-before-fence", Self::ReadBeforeFence),
        ("outcome-read", Self::OutcomeRead),
        ("fence-not-checked", Self::FenceNotChecked),
        ("living-owner-replaced", Self::LivingOwnerReplaced),
        ("dead-owner-kept", Self::DeadOwnerKept),
        ("overdue-lease-trusted", Self::OverdueLeaseTrusted),
        ("ended-lease-renewed", Self::EndedLeaseRenewed),
        ("store-clock-trusted", Self::StoreClockTrusted),
    ];
}
