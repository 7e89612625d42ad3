//! The list of promises.

use super::bench::StoreFactory;
use super::{
    ContractViolation, blobs, checkpoints, documents, dossier, forks, numbers, pages, paused, promises,
    reads, requires, retain, saves, sessions, upkeep, usage, waits, writes,
};

/// Generates the enum, its texts and the dispatch from one table, so that no clause is missing in any of them.
macro_rules! clauses {
    ($($name:ident, $check:path, $text:literal;)*) => {
        /// One promise of a store.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum ContractClause {
            $(#[doc = $text] $name,)*
        }

        impl ContractClause {
            /// Returns every clause.
            #[must_use]
            pub fn all() -> &'static [Self] {
                &[$(Self::$name,)*]
            }

            /// Returns the text of the promise.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// Returns the clause's name, as it is written in the source.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }

        /// Checks whether the stores of a factory keep a promise.
        ///
        /// # Errors
        /// The observed behavior that breaks the clause.
        pub async fn check(clause: ContractClause, bench: &dyn StoreFactory) -> Result<(), ContractViolation> {
            let verdict = match clause {
                $(ContractClause::$name => Box::pin($check(bench)).await,)*
            };
            verdict.map_err(|error| ContractViolation { clause, what: error.0 })
        }
    };
}

clauses! {
    // Journal: the promises of `apply`.
    BatchWhole, promises::batch_whole, "Every put of a batch is written.";
    RefusedWritesNothing, promises::refused_writes_nothing, "A refused batch writes nothing.";
    Ordered, promises::ordered, "Batches land in the order in which `apply` was called.";
    Durable, promises::durable, "What was answered is there after the store is opened again.";
    Fenced, promises::fenced, "A batch whose fence is not the store's is refused.";
    FenceRises, promises::fence_rises, "A handle opened later has a higher fence.";
    EpochStays, promises::epoch_stays, "Opening a store again does not change its epoch.";
    DecidedOnce, promises::decided_once, "Of concurrent batches with the same requirement exactly one lands.";
    NeverDropped, promises::never_dropped, "Dropping the future of `apply` cancels nothing.";
    ReadYourWrites, promises::read_your_writes, "A read that begins after an answer sees that batch.";
    TenantsApart, promises::tenants_apart, "No read or write touches another tenant's rows.";
    // Journal: requirements.
    RequireSessionAbsent, requires::session_absent, "`SessionAbsent` holds while there is no session.";
    RequireSessionVersion, requires::session_version, "`SessionVersion` holds at exactly that version.";
    RequireCounters, requires::counters_exact, "`Counters` holds at exactly those counters.";
    RequireTurn, requires::turn_at_status, "`Turn` holds for a turn at that status.";
    RequireNewestTurn, requires::newest_turn, "`NewestTurn` holds for the turn of the highest number.";
    RequireKeyFree, requires::key_free, "`KeyFree` holds while no turn has the key.";
    RequireWait, requires::wait_at_status, "`Wait` holds for a wait at that status.";
    RequireMailAbsent, requires::mail_absent, "`MailAbsent` holds while no early signal of that id is kept.";
    RequireIdle, requires::idle, "`Idle` holds without open turns and pending waits.";
    RequireSource, forks::require_source, "`Source` holds for that session of the tenant at that version.";
    RequiresComeFirst, requires::come_first, "Requirements are checked on the state before the batch.";
    // Journal: puts.
    PutsInOrder, writes::puts_in_order, "The puts of a batch are applied in order.";
    HeadReplaced, writes::head_replaced, "A head is replaced whole, and the counters stay.";
    CountersRise, numbers::counters_rise, "A put of counters raises them; one that is higher stays.";
    FieldReplaced, writes::field_replaced, "A field is replaced whole, whichever way it was kept.";
    FieldDropped, writes::field_dropped, "A dropped field is gone, others stay; dropping none is fine.";
    ItemNumbers, writes::item_numbers, "An item whose number is taken refuses the batch.";
    PlaceKeepsBody, writes::place_keeps_body, "A place is set on an item; all else of it stays.";
    PlaceOnce, writes::place_once, "A place for an absent or a placed item refuses the batch.";
    SideReplaced, writes::side_replaced, "The side record of an item is replaced; all else of it stays.";
    SideNeedsItem, writes::side_needs_item, "A side record for an absent item refuses the batch.";
    TurnReplaced, writes::turn_replaced, "A turn is replaced whole.";
    KeyFreed, writes::key_freed, "A freed idempotency key is free, and its turn stays.";
    WaitReplaced, writes::wait_replaced, "A wait is replaced whole.";
    MailReplaced, writes::mail_replaced, "An early signal of the same id is replaced whole.";
    MailDropped, writes::mail_dropped, "A dropped early signal is gone; dropping none is fine.";
    PositionReplaced, writes::position_replaced, "A position is replaced whole.";
    PositionDropped, writes::position_dropped, "A dropped position is gone; dropping none is fine.";
    RecordReplaced, writes::record_replaced, "A record of the same name is replaced.";
    RecordsDropped, writes::records_dropped, "Dropping records removes those of that turn only.";
    EventNumbers, writes::event_numbers, "An event whose sequence number is taken refuses the batch.";
    InheritCopies, forks::inherit_copies, "Inherited items are copied with everything that is known of them.";
    InheritWhole, forks::inherit_whole, "A list that cannot be inherited whole refuses the batch.";
    TurnForgotten, retain::turn_forgotten, "A dropped turn goes with what is its own; all else stays.";
    TurnInUse, retain::turn_in_use, "Dropping a turn whose invocation is not over refuses the batch.";
    EventsDropped, retain::events_dropped, "Events below a number are dropped, and no others.";
    UsageAdds, usage::adds, "What is put of the use of a model is added up, and goes with the session.";
    DeleteRemoves, writes::delete_removes, "Deleting a session removes everything of it.";
    DeleteIdempotent, writes::delete_idempotent, "Deleting an absent session succeeds.";
    DeleteMakesAnew, writes::delete_makes_anew, "A head after a delete makes the session anew.";
    NumbersOutlive, numbers::numbers_outlive, "What a deleted session's next free numbers were is told.";
    NumbersGoOn, numbers::numbers_go_on, "A session made anew goes on from the numbers of the deleted one.";
    AuditOutlives, writes::audit_outlives, "Audit rows outlive their session.";
    // Journal: reads.
    FieldsOrdered, reads::fields_ordered, "A session's fields are ordered by name.";
    SessionsPaged, reads::sessions_paged, "Sessions come in pages, ordered by id, and none is missed.";
    SessionsRecent, reads::sessions_recent, "Sessions come the one that was written last first, at most so many.";
    ItemsOfList, reads::items_of_list, "A list is read by range and limit, ordered by sequence number.";
    ItemsByBytes, pages::items_by_bytes, "A page of a list ends with the item that makes it so many bytes, in both directions.";
    ItemsByNumber, reads::items_by_number, "Items are read by range of numbers, placed or not.";
    ItemsOfTurn, reads::items_of_turn, "The items of a turn are read in order of their numbers.";
    TurnByNumber, reads::turn_by_number, "A turn is found by its number.";
    TurnByKey, reads::turn_by_key, "A turn is found by its idempotency key.";
    TurnsOfInvocation, reads::turns_of_invocation, "An invocation's turns are found, ordered.";
    TurnsOpen, reads::turns_open, "The turns without outcome are found, all of them, ordered.";
    TurnsFrom, reads::turns_from, "Turns are read from a number on, at most so many.";
    SessionOfInvocation, reads::session_of_invocation, "The session of an invocation is found.";
    WaitsPending, waits::pending, "A session's pending waits are found, ordered.";
    WaitsPendingOfTenant, waits::pending_of, "A tenant's pending waits are found, ordered, at most so many.";
    WaitsOfSignal, waits::signal, "A session's waits of a signal are found, whatever their status.";
    WaitsOfTenantSignal, waits::signal_of, "A tenant's pending waits of a signal are found, at most so many.";
    WaitsOfInvocation, waits::of_invocation, "An invocation's waits are found, whatever their status.";
    MailOrdered, waits::mail_ordered, "A session's early signals are read in order of their ids.";
    PositionsOrdered, waits::positions_ordered, "A session's positions are read in order of their invocations.";
    RecordsOrdered, reads::records_ordered, "The records of a turn are ordered by name.";
    DossierAgrees, dossier::agrees, "A dossier says what the single reads say.";
    EventsFrom, reads::events_from, "Events are read from a sequence number on, at most so many.";
    UsageOfTenant, usage::of_tenant, "A tenant's use of models is that of all its sessions, deleted ones too.";
    // JournalMaintenance.
    OwnerlessFound, upkeep::ownerless_found, "Open turns of a lower fence are found across tenants.";
    OwnerlessPaged, upkeep::ownerless_paged, "Ownerless turns go on from past a given one.";
    DeadlinesOrdered, upkeep::deadlines_ordered, "Pending waits with a deadline come earliest first.";
    DeadlinesUntil, upkeep::deadlines_until, "Deadlines are read up to a time, at most so many.";
    TenantsListed, upkeep::tenants_listed, "The tenants that have sessions are found, each once, in order.";
    // Documents.
    DocumentWritten, documents::written, "A document that was written is read, whole.";
    DocumentReplaced, documents::replaced, "A write replaces a document whole, and counts its version up.";
    DocumentRemoved, documents::removed, "A removed document is gone; removing none is fine.";
    DocumentExpected, documents::expected, "A change whose expectation does not hold is refused.";
    ChangesWhole, documents::changes_whole, "Of several changes all are made, in order, or none.";
    ChangesDecidedOnce, documents::decided_once, "Of concurrent changes with the same expectation exactly one lands.";
    ChangesNeverDropped, documents::never_dropped, "Dropping the future of a change cancels nothing.";
    DocumentsPaged, documents::paged, "The documents of a kind come in pages, ordered by id, and no others.";
    DocumentsExpired, documents::expired, "What expires goes before a time, of all tenants, at most so many.";
    DocumentsDurable, documents::durable, "Documents and blobs are there after the store is opened again.";
    DocumentsTenantsApart, documents::tenants_apart, "Documents and blobs of tenants are apart.";
    DocumentsOfSession, documents::of_session, "A deletion removes the documents that belong to the session.";
    DocumentOfBatch, documents::of_batch, "A batch writes documents of its session with everything else of it.";
    DocumentOutlives, documents::of_batch_outlives, "A document of a batch that is to outlive the session does.";
    BlobKept, blobs::kept, "A blob is read by the sessions that use it, and by no other.";
    BlobOnce, blobs::once, "A blob is kept once: who keeps it again changes nothing.";
    BlobBytes, blobs::bytes, "The bytes of a session's blobs are summed.";
    BlobAccounts, blobs::accounts, "The bytes of a tenant's blobs are counted, and those of each holder, until they are removed.";
    BlobOfSession, blobs::of_session, "A blob goes with the last session that uses it, and not before.";
    BlobInherited, blobs::inherited, "A fork uses the blobs of its source that it names, and no others.";
    // SessionStore.
    SaveLoads, saves::save_loads, "What was saved is loaded.";
    SaveReplaces, saves::save_replaces, "A save replaces the whole record.";
    SaveOverwrites, saves::save_overwrites, "`Any` overwrites whatever is stored.";
    SaveExpectsAbsent, saves::save_expects_absent, "`Absent` conflicts with what is stored.";
    SaveExpectsExactly, saves::save_expects_exactly, "`Exactly` conflicts with any other version.";
    SaveDecidedOnce, saves::save_decided_once, "Of concurrent saves over one version exactly one wins.";
    SaveVersions, saves::save_versions, "Versions rise with every save.";
    SaveNeedsIdle, saves::save_needs_idle, "A session with an open turn or a pending wait is not overwritten.";
    SaveWhole, saves::save_whole, "A dropped save has happened or has not, nothing between.";
    SaveDurable, saves::save_durable, "A save that was answered is there after the store is opened again.";
    SessionDeleted, sessions::deleted, "A deleted session is not loaded.";
    SessionDeleteIdempotent, sessions::delete_idempotent, "Deleting an absent session record succeeds.";
    SessionTenantsApart, sessions::tenants_apart, "Session records of tenants are apart.";
    ListOrdered, sessions::list_ordered, "A listing shows all sessions, ordered by id.";
    ListSummaries, sessions::list_summaries, "A listing tells version and times of a session.";
    ListFilters, sessions::list_filters, "A listing shows only what passes its filter.";
    // PausedStore.
    PausedLoads, paused::loads, "A paused record that was saved is loaded.";
    PausedOverwrites, paused::overwrites, "A later save of a paused record overwrites.";
    PausedClaimed, paused::claimed, "A claim returns a suspended record as it was and sets `resuming`.";
    PausedClaimRefused, paused::claim_refused, "What is absent or not suspended is not claimed.";
    PausedClaimedOnce, paused::claimed_once, "Of concurrent claims exactly one gets the record.";
    PausedClosed, paused::closed, "A close sets the status.";
    PausedCloseAbsent, paused::close_absent, "Closing an absent record does nothing.";
    PausedDeleted, paused::deleted, "A deleted paused record is gone.";
    PausedDeleteIdempotent, paused::delete_idempotent, "Deleting an absent paused record succeeds.";
    PausedTenantsApart, paused::tenants_apart, "Paused records of tenants are apart.";
    PausedDurable, paused::durable, "A paused record is there after the store is opened again.";
    // Checkpointer.
    CheckpointLoads, checkpoints::loads, "A checkpoint that was saved is loaded, letter by letter.";
    CheckpointReplaces, checkpoints::replaces, "A later save of an invocation replaces its record.";
    CheckpointListed, checkpoints::listed, "A listing shows all checkpointed invocations, ordered by id.";
    CheckpointFiltered, checkpoints::filtered, "A listing of checkpoints shows what passes its filter.";
    CheckpointDeleted, checkpoints::deleted, "A deleted checkpoint is gone.";
    CheckpointDeleteIdempotent, checkpoints::delete_idempotent, "Deleting an absent checkpoint succeeds.";
    CheckpointTenantsApart, checkpoints::tenants_apart, "Checkpoints of tenants are apart.";
    CheckpointDurable, checkpoints::durable, "A checkpoint is there after the store is opened again.";
}
