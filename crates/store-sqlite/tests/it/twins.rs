//! The file's store and the memory store are twins: random batches, valid and not, are taken or refused by both alike,
//! and every read of both answers the same, also after both were opened anew.

use proptest::prelude::*;
use proptest::sample::select;
use singletree_durable::{
    AuditRow, Batch, BatchPrecondition, Counters, EarlySignalRow, Error, EventRow, FencingToken, FieldRow,
    FieldValue, InvocationId, ItemPlacement, ItemRange, Journal, JournalMaintenance, JsonDocument,
    ListItemRow, MemoryStore, ParentSession, PositionRow, RecordRow, RowMutation, SessionHead, SessionKey,
    StoredTurnKind, StoredTurnStatus, StoredWaitStatus, TurnRow, TurnRowQuery, UsageRow, UsageRowQuery,
    WaitRow, WaitRowQuery,
};
use singletree_store_sqlite::{CommitDurability, SqliteStore};
use singletree_store_testing::acquire_blocking;

use crate::made::{Scratch, at, event, head, invocation, item, key_of, scratch, turn, wait};

/// An operation on both stores.
#[derive(Debug, Clone)]
enum Step {
    /// Batches that are handed over together, so that the file's share a commit.
    Apply(Vec<(Batch, Fencing)>),
    Reopen,
}

/// Under which fence a batch comes, beside the store's own.
#[derive(Debug, Clone, Copy)]
enum Fencing {
    Own,
    Older,
    Newer,
}

const NAMES: [&str; 3] = ["one", "two", "zwei\u{df}\u{1f332} '\"\\"];

fn keys() -> Vec<SessionKey> {
    [("a", "x"), ("a", "y"), ("b", "x"), ("b", "\u{1f332}")].map(|(it, session)| key_of(it, session)).to_vec()
}

/// The highest number that a file's rows may have.
const FAR: u64 = (1 << 32) - 1;

fn no() -> impl Strategy<Value = u64> {
    prop_oneof![9 => 0_u64..4, 1 => Just(FAR)]
}

fn name() -> impl Strategy<Value = String> {
    select(&NAMES[..]).prop_map(str::to_owned)
}

/// A text that is not an identifier and may have any character.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![4 => name(), 1 => Just("a\0b\n".to_owned())]
}

fn json() -> impl Strategy<Value = JsonDocument> {
    let texts = ["0", "null", r#"{"a":[1,2,{"b":"\u0000 \ud83c\udf32"}]}"#, "\"\u{1f332}\"", "-0.0e+3", "[]"];
    select(texts.to_vec()).prop_map(JsonDocument::from_text)
}

fn maybe<T: std::fmt::Debug>(of: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    proptest::option::of(of)
}

fn time() -> impl Strategy<Value = i64> {
    prop_oneof![4 => 0_i64..4, 1 => select(vec![i64::MIN, -1, i64::MAX])]
}

fn placement() -> impl Strategy<Value = ItemPlacement> {
    (name(), 0_u64..2, 0_u64..3).prop_map(|(field, generation, seq)| ItemPlacement { field, generation, seq })
}

fn counters() -> impl Strategy<Value = Counters> {
    (0_u64..2, no(), 0_u64..2, 0_u64..2).prop_map(|(turns, items, events, waits)| Counters {
        turns,
        items,
        events,
        waits,
    })
}

fn turn_status() -> impl Strategy<Value = StoredTurnStatus> {
    select(vec![
        StoredTurnStatus::Accepted,
        StoredTurnStatus::Suspended,
        StoredTurnStatus::Completed,
        StoredTurnStatus::Errored,
    ])
}

fn wait_status() -> impl Strategy<Value = StoredWaitStatus> {
    select(vec![
        StoredWaitStatus::Pending,
        StoredWaitStatus::Consumed,
        StoredWaitStatus::Cancelled,
        StoredWaitStatus::Expired,
    ])
}

fn head_row() -> impl Strategy<Value = SessionHead> {
    let parent =
        (select(keys()), no()).prop_map(|(key, offset)| ParentSession { session: key.session, offset });
    // Those that nearly every session has, and those that could be taken for them.
    let text =
        || select(vec!["unversioned", "conversation", "command", "", " ", "x "]).prop_map(str::to_owned);
    (no(), maybe(parent), time(), word(), (text(), text())).prop_map(
        |(version, parent, created, agent, (schema_version, prompt_policy))| SessionHead {
            agent,
            parent,
            schema_version,
            prompt_policy,
            created_at: at(created),
            ..head(version)
        },
    )
}

fn turn_row() -> impl Strategy<Value = TurnRow> {
    let kind = select(vec![StoredTurnKind::Message, StoredTurnKind::Resume, StoredTurnKind::Close]);
    let refers = (maybe(no()), maybe(no()), maybe(json()), maybe(time()));
    (no(), turn_status(), name(), maybe(word()), (0_u64..4, 0_u32..3, kind), refers).prop_map(
        |(no, status, inv, key, (fence, ordinal, kind), (message, wait, outcome, ended))| TurnRow {
            invocation: invocation(&inv),
            ordinal,
            kind,
            digest: key.clone(),
            key,
            fence: FencingToken(fence),
            deaths: ordinal,
            message,
            wait,
            retries: wait.filter(|_| ordinal == 2),
            outcome,
            ended_at: ended.map(at),
            ..turn(no, status)
        },
    )
}

fn wait_row() -> impl Strategy<Value = WaitRow> {
    let texts = (maybe(json()), maybe(word()), maybe(json()), maybe(json()));
    let ends = (maybe(no()), maybe(json()), maybe(word()), maybe(time()));
    (no(), wait_status(), word(), name(), maybe(time()), texts, ends).prop_map(
        |(
            no,
            status,
            signal,
            inv,
            deadline,
            (metadata, action, schema, values),
            (by, answer, from, ended),
        )| {
            WaitRow {
                invocation: invocation(&inv),
                deadline: deadline.map(at),
                metadata,
                action,
                payload_schema: schema,
                on_deadline: values,
                ended_by: by,
                answer,
                answered_by: from,
                ended_at: ended.map(at),
                ..wait(no, &signal, status)
            }
        },
    )
}

fn put() -> impl Strategy<Value = RowMutation> {
    let value = prop_oneof![
        json().prop_map(FieldValue::Value),
        (0_u64..2, no()).prop_map(|(generation, len)| FieldValue::List { generation, len, bytes: 3 * len }),
    ];
    let items = (no(), no(), maybe(placement()), json(), maybe(json())).prop_map(
        |(no, turn, placement, body, side)| ListItemRow { turn, placement, body, side, ..item(no, "") },
    );
    let events = (no(), no(), maybe(no()), maybe(json())).prop_map(|(seq, turn, item, body)| EventRow {
        turn,
        item,
        body,
        ..event(seq, "k")
    });
    let audits = (select(keys()), maybe(name()), time()).prop_map(|(key, by, time)| AuditRow {
        at: at(time),
        action: "did".to_owned(),
        key,
        by,
    });
    let inherits = (select(keys()), name(), 0_u64..2, 0_u64..3).prop_map(|(key, field, generation, len)| {
        RowMutation::Inherit { from: key.session, field, generation, len }
    });
    let position = (name(), no(), json()).prop_map(|(of, turn, body)| PositionRow {
        invocation: invocation(&of),
        turn,
        body,
    });
    let mail = (word(), json(), maybe(word()), time())
        .prop_map(|(signal, payload, from, time)| EarlySignalRow { signal, payload, from, at: at(time) });
    prop_oneof![
        1 => (word(), no()).prop_map(|(model, it)| {
            RowMutation::Usage(UsageRow { model, calls: it, prompt_tokens: 2 * it, ..UsageRow::default() })
        }),
        2 => mail.prop_map(RowMutation::Mail),
        1 => word().prop_map(RowMutation::DropMail),
        6 => head_row().prop_map(RowMutation::Head),
        1 => counters().prop_map(RowMutation::Counters),
        1 => (name(), value).prop_map(|(name, value)| RowMutation::Field(FieldRow { name, value })),
        1 => name().prop_map(RowMutation::DropField),
        3 => items.prop_map(RowMutation::Item),
        2 => (no(), placement()).prop_map(|(item, placement)| RowMutation::Place { item, placement }),
        1 => (no(), json()).prop_map(|(item, side)| RowMutation::Side { item, side }),
        3 => turn_row().prop_map(RowMutation::Turn),
        1 => no().prop_map(|turn| RowMutation::FreeKey { turn }),
        2 => wait_row().prop_map(RowMutation::Wait),
        1 => position.prop_map(RowMutation::Position),
        1 => name().prop_map(|of| RowMutation::DropPosition(invocation(&of))),
        1 => (no(), word(), json())
            .prop_map(|(turn, name, body)| RowMutation::Record(RecordRow { turn, name, body })),
        1 => no().prop_map(|turn| RowMutation::DropRecords { turn }),
        2 => events.prop_map(RowMutation::Event),
        1 => no().prop_map(|turn| RowMutation::DropTurn { turn }),
        1 => no().prop_map(|before| RowMutation::DropEvents { before }),
        2 => inherits,
        1 => Just(RowMutation::Delete),
        1 => audits.prop_map(RowMutation::Audit),
    ]
}

fn require() -> impl Strategy<Value = BatchPrecondition> {
    prop_oneof![
        Just(BatchPrecondition::SessionAbsent),
        no().prop_map(BatchPrecondition::SessionVersion),
        counters().prop_map(BatchPrecondition::Counters),
        (no(), turn_status()).prop_map(|(no, status)| BatchPrecondition::Turn { no, status }),
        no().prop_map(BatchPrecondition::NewestTurn),
        word().prop_map(BatchPrecondition::KeyFree),
        (no(), wait_status()).prop_map(|(no, status)| BatchPrecondition::Wait { no, status }),
        word().prop_map(BatchPrecondition::MailAbsent),
        Just(BatchPrecondition::Idle),
        (select(keys()), time(), no()).prop_map(|(key, created, version)| {
            BatchPrecondition::Source { session: key.session, created_at: at(created), version }
        }),
    ]
}

fn batch() -> impl Strategy<Value = (Batch, Fencing)> {
    let fencing = prop_oneof![16 => Just(Fencing::Own), 1 => Just(Fencing::Older), 1 => Just(Fencing::Newer)];
    let requires = prop_oneof![3 => Just(vec![]), 1 => proptest::collection::vec(require(), 1..3)];
    (select(keys()), fencing, requires, proptest::collection::vec(put(), 0..6)).prop_map(
        |(key, fencing, requires, puts)| {
            let puts = puts.into_iter().map(|it| owned(&key, it)).collect();
            (Batch { key, fence: FencingToken(0), requires, puts }, fencing)
        },
    )
}

/// Names an invocation of a session: of a tenant's sessions, one has it.
fn invocation_of(key: &SessionKey, name: &str) -> InvocationId {
    invocation(&format!("{}/{name}", key.session))
}

fn owned(key: &SessionKey, put: RowMutation) -> RowMutation {
    let own = |it: InvocationId| invocation_of(key, it.as_str());
    match put {
        RowMutation::Turn(it) => RowMutation::Turn(TurnRow { invocation: own(it.invocation.clone()), ..it }),
        RowMutation::Wait(it) => RowMutation::Wait(WaitRow { invocation: own(it.invocation.clone()), ..it }),
        RowMutation::Position(it) => {
            RowMutation::Position(PositionRow { invocation: own(it.invocation.clone()), ..it })
        }
        RowMutation::DropPosition(it) => RowMutation::DropPosition(own(it)),
        other => other,
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => proptest::collection::vec(batch(), 1..5).prop_map(Step::Apply),
        1 => Just(Step::Reopen),
    ]
}

/// Two stores that hear the same.
struct Twins {
    scratch: Scratch,
    file: SqliteStore,
    memory: MemoryStore,
}

async fn open(scratch: &Scratch) -> SqliteStore {
    SqliteStore::options(&scratch.path).durability(CommitDurability::Normal).open().await.unwrap()
}

fn fenced((batch, fencing): &(Batch, Fencing), own: FencingToken) -> Batch {
    let fence = match fencing {
        Fencing::Own => own,
        Fencing::Older => FencingToken(own.0 - 1),
        Fencing::Newer => FencingToken(own.0 + 1),
    };
    Batch { fence, ..batch.clone() }
}

/// Hands batches over one after the other, and waits for all.
async fn apply(journal: &dyn Journal, batches: &[(Batch, Fencing)]) -> Vec<Result<(), &'static str>> {
    let own: Vec<_> =
        batches.iter().map(|(batch, _)| acquire_blocking(journal, &batch.key).unwrap()).collect();
    let landing: Vec<_> = batches.iter().zip(own).map(|(it, own)| journal.apply(fenced(it, own))).collect();
    let mut answers = Vec::new();
    for landing in landing {
        answers.push(landing.await.map_err(|it| match it {
            Error::Refused { .. } => "refused",
            Error::LeaseLost { .. } => "lost",
            other => panic!("{other}"),
        }));
    }
    answers
}

impl Twins {
    async fn step(&mut self, step: &Step) {
        match step {
            Step::Reopen => {
                self.file.close().await;
                self.file = open(&self.scratch).await;
                self.memory = self.memory.reopen();
            }
            Step::Apply(batches) => {
                let (file, memory) = (apply(&self.file, batches).await, apply(&self.memory, batches).await);
                assert_eq!(file, memory, "{batches:?}");
            }
        }
        let (file, memory) = (self.file.read_newest_fence().await, self.memory.read_newest_fence().await);
        assert_eq!(file.unwrap(), memory.unwrap());
    }

    async fn compare(&self) {
        let (file, memory) = (reads(&self.file, &self.file).await, reads(&self.memory, &self.memory).await);
        for (file, memory) in file.into_iter().zip(memory) {
            assert_eq!(file, memory);
        }
    }

    /// Compares the audit rows, which only the file's table and the memory store's own list contain.
    async fn audits(self) {
        self.file.close().await;
        let file = rusqlite::Connection::open(&self.scratch.path).unwrap();
        let mut query =
            file.prepare("SELECT at, action, tenant, session, done_by FROM audit ORDER BY id").unwrap();
        let rows = query.query_map([], |row| {
            let key = key_of(&row.get::<_, String>(2)?, &row.get::<_, String>(3)?);
            Ok(AuditRow { at: at(row.get(0)?), action: row.get(1)?, key, by: row.get(4)? })
        });
        let rows: Vec<AuditRow> = rows.unwrap().collect::<rusqlite::Result<_>>().unwrap();
        // The file keeps hashes of the names.
        let told = |it: AuditRow| (it.at, it.action, it.key.tenant, it.by.is_some());
        let rows: Vec<_> = rows.into_iter().map(told).collect();
        assert_eq!(rows, self.memory.audit().into_iter().map(told).collect::<Vec<_>>());
    }
}

/// Makes every read, and returns each result with its query.
async fn reads(journal: &dyn Journal, upkeep: &dyn JournalMaintenance) -> Vec<String> {
    let mut read = Vec::new();
    let limits = [0, 1, 2, u64::MAX];
    for key in keys() {
        of_session(journal, &key, &mut read).await;
        for limit in limits {
            let (tenant, from) = (&key.tenant, Some(&key.session));
            read.push(format!(
                "{key:?} {limit}: {:?}",
                journal.read_session_page(tenant, from, limit).await.unwrap()
            ));
            let past = Some((at(0), key.session.clone()));
            for past in [None, past.as_ref()] {
                read.push(format!(
                    "{limit} {past:?}: {:?}",
                    journal.read_recent_sessions(tenant, past, limit).await.unwrap()
                ));
            }
            read.push(format!(
                "{tenant} {limit}: {:?}",
                journal.read_session_page(tenant, None, limit).await.unwrap()
            ));
            for no in [0, 2] {
                let past = Some((key.clone(), no));
                read.push(format!(
                    "{past:?} {limit}: {:?}",
                    upkeep.read_ownerless_turns(past.as_ref(), limit).await.unwrap()
                ));
            }
            let mut queries = vec![WaitRowQuery::PendingOf(key.tenant.clone(), limit)];
            queries.extend(NAMES.map(|it| WaitRowQuery::SignalOf(key.tenant.clone(), it.to_owned(), limit)));
            for query in queries {
                read.push(format!("{query:?}: {:?}", journal.read_waits(&query).await.unwrap()));
            }
        }
    }
    for limit in limits {
        read.push(format!("tenants {limit}: {:?}", upkeep.read_tenants(None, limit).await.unwrap()));
        read.push(format!(
            "ownerless {limit}: {:?}",
            upkeep.read_ownerless_turns(None, limit).await.unwrap()
        ));
        for until in [None, Some(at(i64::MIN)), Some(at(2)), Some(at(i64::MAX))] {
            read.push(format!(
                "due {until:?} {limit}: {:?}",
                upkeep.read_waits_by_deadline(until, limit).await.unwrap()
            ));
        }
    }
    read
}

async fn of_session(journal: &dyn Journal, key: &SessionKey, read: &mut Vec<String>) {
    for of in [UsageRowQuery::Session(key.clone()), UsageRowQuery::Tenant(key.tenant.clone())] {
        read.push(format!("{of:?}: {:?}", journal.read_model_usage(&of).await.unwrap()));
    }
    read.push(format!("{key:?} mail: {:?}", journal.read_early_signals(key).await.unwrap()));
    read.push(format!("{key:?}: {:?}", journal.read_session(key).await.unwrap()));
    read.push(format!("{key:?} numbers: {:?}", journal.read_counters(key).await.unwrap()));
    let mut ranges =
        vec![ItemRange::Numbers { from: 1, to: 3 }, ItemRange::Numbers { from: 0, to: u64::MAX }];
    let mut turns = vec![TurnRowQuery::Open, TurnRowQuery::From { no: 1, limit: 2 }];
    turns.push(TurnRowQuery::From { no: 0, limit: u64::MAX });
    let mut waits = vec![WaitRowQuery::Pending(key.clone())];
    for name in NAMES {
        let (field, of) = (name.to_owned(), invocation_of(key, name));
        ranges.push(ItemRange::List { field: field.clone(), generation: 0, from: 0, limit: u64::MAX });
        ranges.push(ItemRange::List { field: field.clone(), generation: 1, from: 1, limit: 1 });
        turns.extend([TurnRowQuery::Key(field.clone()), TurnRowQuery::Invocation(of.clone())]);
        waits.push(WaitRowQuery::Signal(key.clone(), field));
        waits.push(WaitRowQuery::Signal(key.clone(), "a\0b\n".to_owned()));
        turns.push(TurnRowQuery::Key("a\0b\n".to_owned()));
        waits.push(WaitRowQuery::Invocation(key.tenant.clone(), of.clone()));
        read.push(format!(
            "{of} is of: {:?}",
            journal.find_session_of_invocation(&key.tenant, &of).await.unwrap()
        ));
        read.push(format!("{of} stands: {:?}", journal.read_position(key, &of).await.unwrap()));
    }
    for no in [0, 1, 2, 3, FAR, i64::MAX as u64 - 1, u64::MAX] {
        ranges.push(ItemRange::Turn(no));
        turns.push(TurnRowQuery::No(no));
        read.push(format!("{key:?} records {no}: {:?}", journal.read_turn_records(key, no).await.unwrap()));
        for limit in [0, 2, u64::MAX] {
            read.push(format!(
                "{key:?} events {no} {limit}: {:?}",
                journal.read_events(key, no, limit).await.unwrap()
            ));
        }
    }
    for range in ranges {
        read.push(format!("{key:?} {range:?}: {:?}", journal.read_items(key, &range).await.unwrap()));
    }
    for query in turns {
        read.push(format!("{key:?} {query:?}: {:?}", journal.read_turns(key, &query).await.unwrap()));
    }
    for query in waits {
        read.push(format!("{query:?}: {:?}", journal.read_waits(&query).await.unwrap()));
    }
}

/// How many cases there are: more under `.ci/run --deep`.
fn config() -> ProptestConfig {
    let cases = if std::env::var_os("SINGLETREE_DEEP").is_some() { 500 } else { 24 };
    ProptestConfig { cases, failure_persistence: None, ..Default::default() }
}

proptest! {
    #![proptest_config(config())]

    // INV-3, INV-14
    #[test]
    fn the_file_and_the_memory_store_agree_on_every_batch_and_every_read(
        steps in proptest::collection::vec(step(), 1..12),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let scratch = scratch();
            let file = open(&scratch).await;
            let mut twins = Twins { scratch, file, memory: MemoryStore::new() };
            for (at, step) in steps.iter().enumerate() {
                twins.step(step).await;
                // Everything is compared now and then, and after every reopening.
                if at % 4 == 3 || matches!(step, Step::Reopen) {
                    twins.compare().await;
                }
            }
            twins.compare().await;
            twins.audits().await;
        });
    }
}
