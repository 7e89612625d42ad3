//! The list of promises.

use super::bench::StoreFactory;
use super::{
    ContractViolation, blobs, checkpoints, documents, dossier, forks, leases, numbers, pages, paused,
    promises, reads, requires, retain, saves, sessions, upkeep, usage, waits, writes,
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
    BatchWhole, promises::check_batch_whole, "Every put of a batch is written.";
    RefusedWritesNothing, promises::check_refused_writes_nothing, "A refused batch writes nothing.";
    Ordered, promises::check_apply_order, "Batches of a session land in the order in which `apply` was called.";
    Durable, promises::check_durability, "What was answered is there after the store is opened again.";
    EpochStays, promises::check_epoch_stays, "Opening a store again does not change its epoch.";
    DecidedOnce, promises::check_decided_once, "Of concurrent batches with the same requirement exactly one lands.";
    NeverDropped, promises::check_never_dropped, "Dropping the future of `apply` cancels nothing.";
    ReadYourWrites, promises::check_read_your_writes, "A read that begins after an answer sees that batch.";
    TenantsApart, promises::check_tenants_apart, "No read or write touches another tenant's rows.";
    // Journal: who may write.
    FenceRises, leases::check_fence_rises, "A session's fence rises with every other owner that acquires it.";
    Fenced, leases::check_fencing, "A batch under another fence than its session's is refused as lost.";
    NeverAcquired, leases::check_never_acquired, "A batch of a session that was not acquired is refused as lost.";
    LeaseTaken, leases::check_lease_taken, "Batches of an owner are refused as lost once another has acquired.";
    LeaseKept, leases::check_lease_kept, "An owner that acquires a session again keeps its fence.";
    LeaseReleased, leases::check_lease_released, "Batches of a released session are refused as lost.";
    LeaseCounted, leases::check_lease_counted, "A session is held until released as often as acquired.";
    AcquireReads, leases::check_acquire_reads, "What is acquired is told as the single reads tell it.";
    AcquireSeesLast, leases::check_acquire_sees_last, "A former owner's last batch is in what is acquired, or lost.";
    ReadingAcquiresNothing, leases::check_reading_acquires_nothing, "Reading takes a session from nobody.";
    NewestFence, leases::check_newest_fence, "The newest fence is not lower than any that was given out.";
    // Journal: requirements.
    RequireSessionAbsent, requires::check_require_session_absent, "`SessionAbsent` holds while there is no session.";
    RequireSessionVersion, requires::check_require_session_version, "`SessionVersion` holds at exactly that version.";
    RequireCounters, requires::check_require_counters, "`Counters` holds at exactly those counters.";
    RequireTurn, requires::check_require_turn, "`Turn` holds for a turn at that status.";
    RequireNewestTurn, requires::check_require_newest_turn, "`NewestTurn` holds for the turn of the highest number.";
    RequireKeyFree, requires::check_require_key_free, "`KeyFree` holds while no turn has the key.";
    RequireWait, requires::check_require_wait, "`Wait` holds for a wait at that status.";
    RequireMailAbsent, requires::check_require_mail_absent, "`MailAbsent` holds while no early signal of that id is kept.";
    RequireIdle, requires::check_require_idle, "`Idle` holds without open turns and pending waits.";
    RequireSource, forks::check_require_source, "`Source` holds for that session of the tenant at that version.";
    RequiresComeFirst, requires::check_requires_come_first, "Requirements are checked on the state before the batch.";
    // Journal: puts.
    PutsInOrder, writes::check_puts_in_order, "The puts of a batch are applied in order.";
    HeadReplaced, writes::check_head_replaced, "A head is replaced whole, and the counters stay.";
    CountersRise, numbers::check_counters_rise, "A put of counters raises them; one that is higher stays.";
    FieldReplaced, writes::check_field_replaced, "A field is replaced whole, whichever way it was kept.";
    FieldDropped, writes::check_field_dropped, "A dropped field is gone, others stay; dropping none is fine.";
    ItemNumbers, writes::check_item_numbers, "An item whose number is taken refuses the batch.";
    PlaceKeepsBody, writes::check_place_keeps_body, "A place is set on an item; all else of it stays.";
    PlaceOnce, writes::check_place_once, "A place for an absent or a placed item refuses the batch.";
    SideReplaced, writes::check_side_replaced, "The side record of an item is replaced; all else of it stays.";
    SideNeedsItem, writes::check_side_needs_item, "A side record for an absent item refuses the batch.";
    TurnReplaced, writes::check_turn_replaced, "A turn is replaced whole.";
    KeyFreed, writes::check_key_freed, "A freed idempotency key is free, and its turn stays.";
    WaitReplaced, writes::check_wait_replaced, "A wait is replaced whole.";
    MailReplaced, writes::check_mail_replaced, "An early signal of the same id is replaced whole.";
    MailDropped, writes::check_mail_dropped, "A dropped early signal is gone; dropping none is fine.";
    PositionReplaced, writes::check_position_replaced, "A position is replaced whole.";
    PositionDropped, writes::check_position_dropped, "A dropped position is gone; dropping none is fine.";
    RecordReplaced, writes::check_record_replaced, "A record of the same name is replaced.";
    RecordsDropped, writes::check_records_dropped, "Dropping records removes those of that turn only.";
    EventNumbers, writes::check_event_numbers, "An event whose sequence number is taken refuses the batch.";
    InheritCopies, forks::check_inherit_copies, "Inherited items are copied with everything that is known of them.";
    InheritWhole, forks::check_inherit_whole, "A list that cannot be inherited whole refuses the batch.";
    TurnForgotten, retain::check_turn_forgotten, "A dropped turn goes with what is its own; all else stays.";
    TurnInUse, retain::check_turn_in_use, "Dropping a turn whose invocation is not over refuses the batch.";
    EventsDropped, retain::check_events_dropped, "Events below a number are dropped, and no others.";
    UsageAdds, usage::check_usage_adds, "What is put of the use of a model is added up, and goes with the session.";
    DeleteRemoves, writes::check_delete_removes, "Deleting a session removes everything of it.";
    DeleteIdempotent, writes::check_delete_twice, "Deleting an absent session succeeds.";
    DeleteMakesAnew, writes::check_delete_makes_anew, "A head after a delete makes the session anew.";
    NumbersOutlive, numbers::check_numbers_outlive, "What a deleted session's next free numbers were is told.";
    NumbersGoOn, numbers::check_numbers_go_on, "A session made anew goes on from the numbers of the deleted one.";
    AuditOutlives, writes::check_audit_outlives, "Audit rows outlive their session.";
    // Journal: reads.
    FieldsOrdered, reads::check_fields_ordered, "A session's fields are ordered by name.";
    SessionsPaged, reads::check_sessions_paged, "Sessions come in pages, ordered by id, and none is missed.";
    SessionsRecent, reads::check_sessions_recent, "Sessions come the one that was written last first, at most so many.";
    ItemsOfList, reads::check_items_of_list, "A list is read by range and limit, ordered by sequence number.";
    ItemsByBytes, pages::check_items_by_bytes, "A page of a list ends with the item that makes it so many bytes, in both directions.";
    ItemsByNumber, reads::check_items_by_number, "Items are read by range of numbers, placed or not.";
    ItemsOfTurn, reads::check_items_of_turn, "The items of a turn are read in order of their numbers.";
    TurnByNumber, reads::check_turn_by_number, "A turn is found by its number.";
    TurnByKey, reads::check_turn_by_key, "A turn is found by its idempotency key.";
    TurnsOfInvocation, reads::check_turns_of_invocation, "An invocation's turns are found, ordered.";
    TurnsOpen, reads::check_turns_open, "The turns without outcome are found, all of them, ordered.";
    TurnsFrom, reads::check_turns_from, "Turns are read from a number on, at most so many.";
    SessionOfInvocation, reads::check_session_of_invocation, "The session of an invocation is found.";
    WaitsPending, waits::check_waits_pending, "A session's pending waits are found, ordered.";
    WaitsPendingOfTenant, waits::check_waits_pending_of_tenant, "A tenant's pending waits are found, ordered, at most so many.";
    WaitsOfSignal, waits::check_waits_of_signal, "A session's waits of a signal are found, whatever their status.";
    WaitsOfTenantSignal, waits::check_waits_of_tenant_signal, "A tenant's pending waits of a signal are found, at most so many.";
    WaitsOfInvocation, waits::check_waits_of_invocation, "An invocation's waits are found, whatever their status.";
    MailOrdered, waits::check_mail_ordered, "A session's early signals are read in order of their ids.";
    PositionsOrdered, waits::check_positions_ordered, "A session's positions are read in order of their invocations.";
    RecordsOrdered, reads::check_records_ordered, "The records of a turn are ordered by name.";
    DossierAgrees, dossier::check_dossier_agrees, "A dossier says what the single reads say.";
    EventsFrom, reads::check_events_from, "Events are read from a sequence number on, at most so many.";
    LoggedTurns, reads::check_logged_turns, "Several turns are read with their events as each would be by itself.";
    UsageOfTenant, usage::check_usage_of_tenant, "A tenant's use of models is that of all its sessions, deleted ones too.";
    // JournalMaintenance.
    OwnerlessFound, upkeep::check_ownerless_found, "Open turns of a lower fence are found across tenants.";
    OwnerlessPaged, upkeep::check_ownerless_paged, "Ownerless turns go on from past a given one.";
    DeadlinesOrdered, upkeep::check_deadlines_ordered, "Pending waits with a deadline come earliest first.";
    DeadlinesUntil, upkeep::check_deadlines_until, "Deadlines are read up to a time, at most so many.";
    TenantsListed, upkeep::check_tenants_listed, "The tenants that have sessions are found, each once, in order.";
    // Documents.
    DocumentWritten, documents::check_document_written, "A document that was written is read, whole.";
    DocumentReplaced, documents::check_document_replaced, "A write replaces a document whole, and counts its version up.";
    DocumentRemoved, documents::check_document_removed, "A removed document is gone; removing none is fine.";
    DocumentExpected, documents::check_document_preconditions, "A change whose expectation does not hold is refused.";
    ChangesWhole, documents::check_changes_whole, "Of several changes all are made, in order, or none.";
    ChangesDecidedOnce, documents::check_changes_decided_once, "Of concurrent changes with the same expectation exactly one lands.";
    ChangesNeverDropped, documents::check_changes_never_dropped, "Dropping the future of a change cancels nothing.";
    DocumentsPaged, documents::check_documents_paged, "The documents of a kind come in pages, ordered by id, and no others.";
    DocumentsExpired, documents::check_documents_expired, "What expires goes before a time, of all tenants, at most so many.";
    DocumentsDurable, documents::check_documents_durable, "Documents and blobs are there after the store is opened again.";
    DocumentsTenantsApart, documents::check_documents_tenants_apart, "Documents and blobs of tenants are apart.";
    DocumentsOfSession, documents::check_documents_of_session, "A deletion removes the documents that belong to the session.";
    DocumentOfBatch, documents::check_document_of_batch, "A batch writes documents of its session with everything else of it.";
    DocumentOutlives, documents::check_document_outlives, "A document of a batch that is to outlive the session does.";
    BlobKept, blobs::check_blob_kept, "A blob is read by the sessions that use it, and by no other.";
    BlobOnce, blobs::check_blob_once, "A blob is kept once: who keeps it again changes nothing.";
    BlobBytes, blobs::check_blob_bytes, "The bytes of a session's blobs are summed.";
    BlobAccounts, blobs::check_blob_accounts, "The bytes of a tenant's blobs are counted, and those of each holder, until they are removed.";
    BlobOfSession, blobs::check_blob_of_session, "A blob goes with the last session that uses it, and not before.";
    BlobInherited, blobs::check_blob_inherited, "A fork uses the blobs of its source that it names, and no others.";
    // SessionStore.
    SaveLoads, saves::check_save_loads, "What was saved is loaded.";
    SaveReplaces, saves::check_save_replaces, "A save replaces the whole record.";
    SaveOverwrites, saves::check_save_overwrites, "`Any` overwrites whatever is stored.";
    SaveExpectsAbsent, saves::check_save_expects_absent, "`Absent` conflicts with what is stored.";
    SaveExpectsExactly, saves::check_save_expects_exactly, "`Exactly` conflicts with any other version.";
    SaveDecidedOnce, saves::check_save_decided_once, "Of concurrent saves over one version exactly one wins.";
    SaveVersions, saves::check_save_versions, "Versions rise with every save.";
    SaveNeedsIdle, saves::check_save_needs_idle, "A session with an open turn or a pending wait is not overwritten.";
    SaveWhole, saves::check_save_whole, "A dropped save has happened or has not, nothing between.";
    SaveDurable, saves::check_save_durable, "A save that was answered is there after the store is opened again.";
    SessionDeleted, sessions::check_session_deleted, "A deleted session is not loaded.";
    SessionDeleteIdempotent, sessions::check_session_delete_twice, "Deleting an absent session record succeeds.";
    SessionTenantsApart, sessions::check_session_tenants_apart, "Session records of tenants are apart.";
    ListOrdered, sessions::check_list_ordered, "A listing shows all sessions, ordered by id.";
    ListSummaries, sessions::check_list_summaries, "A listing tells version and times of a session.";
    ListFilters, sessions::check_list_filters, "A listing shows only what passes its filter.";
    // PausedStore.
    PausedLoads, paused::check_paused_loads, "A paused record that was saved is loaded.";
    PausedOverwrites, paused::check_paused_overwrites, "A later save of a paused record overwrites.";
    PausedClaimed, paused::check_paused_claimed, "A claim returns a suspended record as it was and sets `resuming`.";
    PausedClaimRefused, paused::check_paused_claim_refused, "What is absent or not suspended is not claimed.";
    PausedClaimedOnce, paused::check_paused_claimed_once, "Of concurrent claims exactly one gets the record.";
    PausedClosed, paused::check_paused_closed, "A close sets the status.";
    PausedCloseAbsent, paused::check_paused_close_absent, "Closing an absent record does nothing.";
    PausedDeleted, paused::check_paused_deleted, "A deleted paused record is gone.";
    PausedDeleteIdempotent, paused::check_paused_delete_twice, "Deleting an absent paused record succeeds.";
    PausedTenantsApart, paused::check_paused_tenants_apart, "Paused records of tenants are apart.";
    PausedDurable, paused::check_paused_durable, "A paused record is there after the store is opened again.";
    // Checkpointer.
    CheckpointLoads, checkpoints::check_checkpoint_loads, "A checkpoint that was saved is loaded, letter by letter.";
    CheckpointReplaces, checkpoints::check_checkpoint_replaces, "A later save of an invocation replaces its record.";
    CheckpointListed, checkpoints::check_checkpoint_listed, "A listing shows all checkpointed invocations, ordered by id.";
    CheckpointFiltered, checkpoints::check_checkpoint_filtered, "A listing of checkpoints shows what passes its filter.";
    CheckpointDeleted, checkpoints::check_checkpoint_deleted, "A deleted checkpoint is gone.";
    CheckpointDeleteIdempotent, checkpoints::check_checkpoint_delete_twice, "Deleting an absent checkpoint succeeds.";
    CheckpointTenantsApart, checkpoints::check_checkpoint_tenants, "Checkpoints of tenants are apart.";
    CheckpointDurable, checkpoints::check_checkpoint_durable, "A checkpoint is there after the store is opened again.";
}
