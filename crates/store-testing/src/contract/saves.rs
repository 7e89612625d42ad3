//! Saving and loading session records.

use std::collections::BTreeMap;

use futures_util::FutureExt;
use futures_util::future::join_all;
use serde_json::Value;
use singletree_durable::{ExpectedVersion, RecordVersion, Result, RowMutation, SessionKey, SessionRecord};

use super::ContractStores;
use super::bench::{ObservedBreach, StoreFactory, Verdict, ensure_conflict, ensure_equal, ensure_that};
use super::rows::{
    apply_mutations, json_document, sample_consumed_wait, sample_ended_turn, sample_turn, sample_wait,
    session_key, time_at_millis,
};

/// Returns a record with one value and one list.
pub(super) fn session_record(text: &str, list: &str) -> SessionRecord {
    let state = [("text", format!("{text:?}")), ("list", list.to_owned())];
    SessionRecord {
        schema_version: "v1".to_owned(),
        state: state.into_iter().map(|(name, value)| (name.to_owned(), json_document(&value))).collect(),
        updated_at: time_at_millis(1_000),
    }
}

/// A record with parsed values, to compare by value: stores need not keep white space.
type Decoded = (String, BTreeMap<String, Value>, i64);

fn decode_record(record: &SessionRecord) -> std::result::Result<Decoded, ObservedBreach> {
    let mut state = BTreeMap::new();
    for (name, value) in &record.state {
        let value =
            value.decode().map_err(|error| ObservedBreach(format!("field {name} is not JSON: {error}")))?;
        state.insert(name.clone(), value);
    }
    Ok((record.schema_version.clone(), state, record.updated_at.as_millis()))
}

async fn load_record(stores: &ContractStores, key: &SessionKey) -> Result<Option<SessionRecord>> {
    Ok(stores.sessions.load(key).await?.map(|(record, _)| record))
}

async fn load_version(stores: &ContractStores, key: &SessionKey) -> Result<Option<RecordVersion>> {
    Ok(stores.sessions.load(key).await?.map(|(_, version)| version))
}

/// Returns the version to expect for the next save.
async fn load_expected_version(stores: &ContractStores, key: &SessionKey) -> Result<ExpectedVersion> {
    Ok(load_version(stores, key).await?.map_or(ExpectedVersion::Absent, ExpectedVersion::Exactly))
}

async fn ensure_loads(stores: &ContractStores, key: &SessionKey, record: &SessionRecord) -> Verdict {
    let found = load_record(stores, key).await?.as_ref().map(decode_record).transpose()?;
    ensure_equal("the loaded record", &found, &Some(decode_record(record)?))
}

pub(super) async fn check_save_loads(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    ensure_equal("an absent record", &load_record(&stores, &s).await?, &None)?;
    let mut record = session_record("", r#"[{"b":[1,2.5],"a":"[x]"}, "two", null, [[]]]"#);
    for (name, value) in [
        ("empty", "[]"),
        ("null", "null"),
        ("number", "-1.5e10"),
        ("object", r#"{"list":[1,2],"t":"ä\n\"\u0000"}"#),
        ("spaced", " [ 1 , 2 ] "),
    ] {
        record.state.insert(name.to_owned(), json_document(value));
    }
    stores.sessions.save(&s, &record, ExpectedVersion::Absent).await?;
    ensure_loads(&stores, &s, &record).await
}

pub(super) async fn check_save_replaces(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let long = session_record("long", "[1,2,3]");
    let mut short = SessionRecord { schema_version: "v2".to_owned(), ..session_record("", "[4]") };
    short.state.remove("text");
    short.updated_at = time_at_millis(2_000);
    let mut turned = session_record("", "[]");
    turned.state.insert("text".to_owned(), json_document("[1]"));
    turned.state.insert("list".to_owned(), json_document("1"));
    let empty = SessionRecord { state: BTreeMap::new(), ..long.clone() };
    for record in [&long, &short, &empty, &turned, &long, &short] {
        let expected = load_expected_version(&stores, &s).await?;
        stores.sessions.save(&s, record, expected).await?;
        ensure_loads(&stores, &s, record).await?;
    }
    Ok(())
}

pub(super) async fn check_save_overwrites(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    for text in ["one", "two", "three"] {
        let record = session_record(text, "[]");
        stores.sessions.save(&s, &record, ExpectedVersion::Any).await?;
        ensure_loads(&stores, &s, &record).await?;
    }
    Ok(())
}

pub(super) async fn check_save_expects_absent(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let (one, two) = (session_record("one", "[1]"), session_record("two", "[2]"));
    stores.sessions.save(&s, &one, ExpectedVersion::Absent).await?;
    let again = stores.sessions.save(&s, &two, ExpectedVersion::Absent).await;
    ensure_conflict("`Absent` over a record", &again)?;
    ensure_loads(&stores, &s, &one).await
}

pub(super) async fn check_save_expects_exactly(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let (one, two) = (session_record("one", "[1]"), session_record("two", "[2]"));
    let absent = stores.sessions.save(&s, &one, ExpectedVersion::Exactly(RecordVersion(1))).await;
    ensure_conflict("`Exactly` over nothing", &absent)?;
    stores.sessions.save(&s, &one, ExpectedVersion::Absent).await?;
    let Some(first) = load_version(&stores, &s).await? else {
        return Err(ObservedBreach("the saved record is absent".to_owned()));
    };
    let ahead = ExpectedVersion::Exactly(RecordVersion(first.0 + 1));
    ensure_conflict("a version to come", &stores.sessions.save(&s, &two, ahead).await)?;
    ensure_loads(&stores, &s, &one).await?;
    stores.sessions.save(&s, &two, ExpectedVersion::Exactly(first)).await?;
    let stale = stores.sessions.save(&s, &one, ExpectedVersion::Exactly(first)).await;
    ensure_conflict("a version gone by", &stale)?;
    ensure_loads(&stores, &s, &two).await
}

pub(super) async fn check_save_decided_once(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    stores.sessions.save(&s, &session_record("before", "[]"), ExpectedVersion::Absent).await?;
    let expected = load_expected_version(&stores, &s).await?;
    let records: Vec<_> = (0..10).map(|n| session_record(&format!("save {n}"), "[1]")).collect();
    let saves = records.iter().map(|record| stores.sessions.save(&s, record, expected));
    let answers = join_all(saves).await;
    let won: Vec<_> = answers.iter().enumerate().filter(|(_, it)| it.is_ok()).collect();
    ensure_equal("how many saves won", &won.len(), &1)?;
    for (_, lost) in answers.iter().enumerate().filter(|(_, it)| it.is_err()) {
        ensure_conflict("a late save", lost)?;
    }
    ensure_loads(&stores, &s, &records[won[0].0]).await
}

pub(super) async fn check_save_versions(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let mut last = None;
    for n in 0..5 {
        let expected = load_expected_version(&stores, &s).await?;
        let record = session_record(&n.to_string(), "[1,2]");
        let saved = Some(stores.sessions.save(&s, &record, expected).await?);
        ensure_that(saved > last, || format!("version {saved:?} after {last:?}"))?;
        ensure_equal("the loaded version", &load_version(&stores, &s).await?, &saved)?;
        last = saved;
    }
    Ok(())
}

pub(super) async fn check_save_needs_idle(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let (one, two) = (session_record("one", "[1]"), session_record("two", "[2]"));
    stores.sessions.save(&s, &one, ExpectedVersion::Absent).await?;
    let exactly = load_expected_version(&stores, &s).await?;
    for (busy, idle) in [
        (RowMutation::Turn(sample_turn(1)), RowMutation::Turn(sample_ended_turn(1))),
        (RowMutation::Wait(sample_wait(1)), RowMutation::Wait(sample_consumed_wait(1))),
    ] {
        apply_mutations(&stores, &s, [busy]).await?;
        for expected in [ExpectedVersion::Any, exactly] {
            ensure_conflict("a busy session", &stores.sessions.save(&s, &two, expected).await)?;
        }
        ensure_loads(&stores, &s, &one).await?;
        apply_mutations(&stores, &s, [idle]).await?;
    }
    stores.sessions.save(&s, &two, exactly).await?;
    ensure_loads(&stores, &s, &two).await
}

pub(super) async fn check_save_whole(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let first = session_record("first", "[0]");
    stores.sessions.save(&s, &first, ExpectedVersion::Absent).await?;
    // A dropped save may still land while the next one runs: each record that is read is complete.
    let mut whole = vec![decode_record(&first)?];
    for polls in 0..8 {
        let expected = load_expected_version(&stores, &s).await?;
        let record = session_record(&format!("save {polls}"), &format!("[{polls},2]"));
        let mut save = stores.sessions.save(&s, &record, expected);
        let mut is_done = false;
        for _ in 0..polls {
            is_done = is_done || (&mut save).now_or_never().is_some();
        }
        drop(save);
        whole.push(decode_record(&record)?);
        let Some(found) = load_record(&stores, &s).await? else {
            return Err(ObservedBreach("the record is gone".to_owned()));
        };
        let found = decode_record(&found)?;
        ensure_that(whole.contains(&found), || format!("a record that nobody saved: {found:?}"))?;
    }
    Ok(())
}

pub(super) async fn check_save_durable(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let record = session_record("one", "[1,2]");
    stores.sessions.save(&s, &record, ExpectedVersion::Absent).await?;
    let stores = bench.reopen(stores).await?;
    ensure_loads(&stores, &s, &record).await
}
