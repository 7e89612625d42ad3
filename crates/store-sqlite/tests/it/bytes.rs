//! The bytes that a turn writes to disk, which do not depend on the length of the history (INV-4).

use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use rusqlite::Connection;
use singletree_durable::{
    Batch, BatchPrecondition, Counters, EventRow, FieldRow, FieldValue, Journal, ListItemRow, PositionRow,
    RowMutation, SessionHead, StoredTurnStatus, StoredWaitStatus, Timestamp, TurnRow, WaitRow,
};
use singletree_store_sqlite::{CommitDurability, SqliteStore};
use singletree_store_testing::acquire_blocking;

use crate::made::{Scratch, at, batch, event, head, invocation, item, json, key, place, turn, wait};

/// Returns an id as random as ids are: their index is not filled in order.
fn id(no: u64) -> String {
    let mixed = no.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = u128::from(mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9_94d0_49bb_1331_11eb);
    let hex = format!("{:032x}", mixed);
    format!("{}-{}-4{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
}

/// Turns as the chat harness writes them: a commit that accepts, one that ends.
struct Talk {
    store: SqliteStore,
    session: String,
    /// How long user text and reply are.
    text: usize,
}

impl Talk {
    fn now(no: u64) -> Timestamp {
        at(1_700_000_000_000 + i64::try_from(no).unwrap() * 1_000)
    }

    fn says(&self, no: u64, turn: u64, role: &str) -> ListItemRow {
        let text = format!("{turn:0len$}", len = self.text);
        ListItemRow { turn, ..item(no, &format!("{{\"role\":\"{role}\",\"content\":\"{text}\"}}")) }
    }

    fn tells(no: u64, seq: u64, kind: &str, item: Option<u64>) -> RowMutation {
        let body = (kind == "message_appended").then(|| json("{\"k\":1}"));
        RowMutation::Event(EventRow { turn: no, item, at: Self::now(no), body, ..event(seq, kind) })
    }

    fn accepted(&self, no: u64, invocation_no: u64) -> TurnRow {
        TurnRow {
            invocation: invocation(&id(invocation_no)),
            accepted_at: Self::now(no),
            fence: acquire_blocking(&self.store, &key("s")).unwrap(),
            ..turn(no, StoredTurnStatus::Accepted)
        }
    }

    fn accept(&self, no: u64, row: &TurnRow) -> Batch {
        let mut puts = vec![
            RowMutation::Item(self.says(2 * no, no, "user")),
            RowMutation::Turn(row.clone()),
            Self::tells(no, 4 * no, "turn_accepted", Some(2 * no)),
            RowMutation::Counters(Counters {
                turns: no + 1,
                items: 2 * no + 1,
                events: 4 * no + 1,
                waits: 0,
            }),
        ];
        if no == 0 {
            puts.insert(0, RowMutation::Head(head(0)));
        }
        let accept = batch(&self.store, &self.session, puts);
        if no == 0 { accept.require(BatchPrecondition::SessionAbsent) } else { accept }
    }

    fn end(&self, no: u64, row: &TurnRow, status: StoredTurnStatus) -> Batch {
        let now = Self::now(no);
        let outcome =
            format!("{{\"tail\":{{\"generation\":0,\"from\":{},\"to\":{}}}}}", 2 * no + 1, 2 * no + 2);
        let ended = TurnRow { status, ended_at: Some(now), outcome: Some(json(&outcome)), ..row.clone() };
        let reply =
            ListItemRow { placement: Some(place(2 * no + 1)), ..self.says(2 * no + 1, no, "assistant") };
        let list = FieldValue::List { generation: 0, len: 2 * no + 2, bytes: 440 * (no + 1) };
        let puts = [
            RowMutation::Item(reply),
            Self::tells(no, 4 * no + 1, "turn_started", None),
            Self::tells(no, 4 * no + 2, "message_appended", Some(2 * no + 1)),
            RowMutation::Place { item: 2 * no, placement: place(2 * no) },
            RowMutation::Field(FieldRow { name: "messages".into(), value: list }),
            RowMutation::Head(SessionHead { updated_at: now, ..head(no + 1) }),
            RowMutation::Turn(ended),
            Self::tells(no, 4 * no + 3, "turn_ended", None),
            RowMutation::Counters(Counters {
                turns: no + 1,
                items: 2 * no + 2,
                events: 4 * no + 4,
                waits: 0,
            }),
        ];
        batch(&self.store, &self.session, puts)
            .require(BatchPrecondition::Turn { no, status: StoredTurnStatus::Accepted })
    }

    async fn turn(&self, no: u64) {
        let row = self.accepted(no, no);
        self.store.apply(self.accept(no, &row)).await.unwrap();
        self.store.apply(self.end(no, &row, StoredTurnStatus::Completed)).await.unwrap();
    }
}

/// Counts the frames that were written to the log, however often the log is restarted: after a restart, its frames
/// carry another salt than the old frames that still follow them.
struct Log {
    file: PathBuf,
    salt: [u8; 8],
    frames: u64,
}

impl Log {
    fn of(scratch: &Scratch) -> Self {
        let file = scratch.dir.path().join("store.db-wal");
        let mut log = Self { file, salt: [0; 8], frames: 0 };
        log.since();
        log
    }

    /// Returns how many bytes were written to the log since this was asked last.
    fn since(&mut self) -> u64 {
        // SQLite's file format, "WAL-mode file format": a header of 32 bytes with the salt at 16, then frames, each
        // with a header of 24 bytes with the salt at 8.
        let mut file = std::fs::File::open(&self.file).unwrap();
        let mut salt_at = |at: u64| {
            let mut salt = [0; 8];
            file.seek(SeekFrom::Start(at)).unwrap();
            file.read_exact(&mut salt).is_ok().then_some(salt)
        };
        let salt = salt_at(16).unwrap_or_default();
        if salt != self.salt {
            (self.salt, self.frames) = (salt, 0);
        }
        let before = self.frames;
        while salt_at(32 + self.frames * FRAME + 8) == Some(salt) {
            self.frames += 1;
        }
        (self.frames - before) * FRAME
    }
}

const FRAME: u64 = 24 + 2048;

async fn talk(text: usize) -> (Scratch, Talk) {
    let scratch = crate::made::scratch();
    let store =
        SqliteStore::options(&scratch.path).durability(CommitDurability::Normal).open().await.unwrap();
    (scratch, Talk { store, session: "conv-1".to_owned(), text })
}

/// Closes the store and returns the size of the file, which is whole then.
async fn size(scratch: &Scratch, store: &SqliteStore) -> u64 {
    store.close().await;
    let size = scratch.path.metadata().unwrap().len();
    let file = Connection::open(&scratch.path).unwrap();
    let pages: i64 = file
        .query_row("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", [], |it| {
            it.get(0)
        })
        .unwrap();
    assert_eq!(i64::try_from(size), Ok(pages));
    size
}

fn report(line: &str) {
    // Straight to the terminal: the test harness captures the output of `print!`.
    let mut out = std::io::stdout();
    writeln!(out, "{line}").unwrap();
}

fn mean(bytes: &[u64]) -> u64 {
    bytes.iter().sum::<u64>() / bytes.len() as u64
}

#[tokio::test]
async fn a_thousand_small_turns_fit_their_budget_and_cost_the_same_at_any_length() {
    let (scratch, talk) = talk(200).await;
    let mut log = Log::of(&scratch);
    let (mut bound, mut logged) = (Vec::new(), Vec::new());
    for no in 0..1_000 {
        let before = talk.store.bytes_written();
        talk.turn(no).await;
        bound.push(talk.store.bytes_written() - before);
        logged.push(log.since());
    }
    assert_eq!(talk.store.commit_count(), 2 * 1_000);
    let size = size(&scratch, &talk.store).await;
    // A turn that fills a page logs more than one that does not, so that neighbours are taken together.
    let (early, late) = (mean(&logged[5..55]), mean(&logged[950..]));
    report(&format!(
        "200 B: {size} bytes in the file; bound {} at turn 10, {} at 1000; logged {early} and {late}, {} on average",
        bound[9],
        bound[999],
        mean(&logged)
    ));
    assert!(size <= 1_153_433, "{size} bytes for 1,000 turns are more than 1.1 MiB");
    assert!(bound[999] * 100 <= bound[9] * 102, "{} bytes at turn 10, {} at turn 1000", bound[9], bound[999]);
    // INV-4: two messages, and at most 4 KiB beside them.
    assert!(bound[999] <= 2 * 2 * 200 + 4_096, "{} bytes for a turn", bound[999]);
    assert!(late * 100 <= early * 125, "{early} bytes logged at turn 10, {late} at turn 1000");
    assert!(mean(&logged) <= 40 << 10, "{} bytes logged for a turn", mean(&logged));
}

#[tokio::test]
async fn four_hundred_turns_of_two_kib_each_way_fit_their_budget() {
    let (scratch, talk) = talk(2_048).await;
    let mut log = Log::of(&scratch);
    let mut logged = Vec::new();
    for no in 0..400 {
        talk.turn(no).await;
        logged.push(log.since());
    }
    let size = size(&scratch, &talk.store).await;
    report(&format!("2 KiB: {size} bytes in the file, {} logged for a turn", mean(&logged)));
    assert!(size <= 2_600_000, "{size} bytes for 400 turns of 2+2 KiB");
}

#[tokio::test]
async fn a_suspended_session_takes_little_more_than_a_kib_and_a_half() {
    let (scratch, mut talk) = talk(200).await;
    for no in 0..1_000 {
        talk.session = format!("session-{no:06}");
        let row = talk.accepted(0, no);
        talk.store.apply(talk.accept(0, &row)).await.unwrap();
        let mut end = talk.end(0, &row, StoredTurnStatus::Suspended);
        let frame = "{\"agent\":\"default\",\"graph\":\"2465fa983eef5540\",\"version\":1,\"marks\":{\"first\":2,\
            \"boundary\":2,\"announced\":2},\"cursor\":{\"frames\":[{\"node\":\"gate\",\"at\":\"after\"}],\
            \"next_step\":2},\"frames\":[{}],\"descriptor\":{\"signal_id\":\"approval\"}}";
        let position = PositionRow { invocation: row.invocation.clone(), turn: 0, body: json(frame) };
        let pending = WaitRow {
            invocation: row.invocation.clone(),
            created_at: Talk::now(0),
            ..wait(0, "approval", StoredWaitStatus::Pending)
        };
        let approved = FieldRow { name: "approved".into(), value: FieldValue::Value(json("false")) };
        end.puts.extend([
            RowMutation::Wait(pending),
            RowMutation::Position(position),
            RowMutation::Field(approved),
        ]);
        talk.store.apply(end).await.unwrap();
    }
    let size = size(&scratch, &talk.store).await;
    report(&format!("suspended: {} bytes for a session", size / 1_000));
    // A kibibyte and a half, and the checksums of twelve rows.
    assert!(size / 1_000 <= 1_664, "{} bytes for a suspended session", size / 1_000);
}

#[tokio::test]
async fn a_long_message_is_bound_once() {
    // INV-4
    let (_scratch, store) = crate::made::store().await;
    store.apply(batch(&store, "s", [RowMutation::Head(head(0))])).await.unwrap();
    let before = store.bytes_written();
    let body = format!("\"{}\"", "x".repeat(10_000_000));
    store.apply(batch(&store, "s", [RowMutation::Item(item(0, &body))])).await.unwrap();
    store.apply(batch(&store, "s", [RowMutation::Place { item: 0, placement: place(0) }])).await.unwrap();
    // The item: key, turn, mark, body, checksum. The name of its list. Its place: list, generation, number, the change
    // of the checksum, and the key again.
    assert_eq!(store.bytes_written() - before, (4 * 8 + 10_000_002) + 8 + 5 * 8);
}
