//! Saving and loading session records.

use std::collections::BTreeMap;

use futures_util::FutureExt;
use futures_util::future::join_all;
use serde_json::Value;
use singletree_durable::{ExpectedVersion, RecordVersion, Result, RowMutation, SessionKey, SessionRecord};

use super::ContractStores;
use super::bench::{ObservedBreach, StoreFactory, Verdict, conflict, ensure, same};
use super::rows::{apply, at, consumed, ended, json, key, turn, wait};

/// Returns a record with one value and one list.
pub(super) fn session_record(text: &str, list: &str) -> SessionRecord {
    let state = [("text", format!("{text:?}")), ("list", list.to_owned())];
    SessionRecord {
        schema_version: "v1".to_owned(),
        state: state.into_iter().map(|(name, value)| (name.to_owned(), json(&value))).collect(),
        updated_at: at(1_000),
    }
}

/// A record with parsed values, to compare by value: stores need not keep white space.
type Decoded = (String, BTreeMap<String, Value>, i64);

fn decoded(record: &SessionRecord) -> std::result::Result<Decoded, ObservedBreach> {
    let mut state = BTreeMap::new();
    for (name, value) in &record.state {
        let value =
            value.decode().map_err(|error| ObservedBreach(format!("field {name} is not JSON: {error}")))?;
        state.insert(name.clone(), value);
    }
    Ok((record.schema_version.clone(), state, record.updated_at.as_millis()))
}

async fn load(stores: &ContractStores, key: &SessionKey) -> Result<Option<SessionRecord>> {
    Ok(stores.sessions.load(key).await?.map(|(record, _)| record))
}

async fn version(stores: &ContractStores, key: &SessionKey) -> Result<Option<RecordVersion>> {
    Ok(stores.sessions.load(key).await?.map(|(_, version)| version))
}

/// Returns the version to expect for the next save.
async fn expected(stores: &ContractStores, key: &SessionKey) -> Result<ExpectedVersion> {
    Ok(version(stores, key).await?.map_or(ExpectedVersion::Absent, ExpectedVersion::Exactly))
}

async fn loads(stores: &ContractStores, key: &SessionKey, record: &SessionRecord) -> Verdict {
    let found = load(stores, key).await?.as_ref().map(decoded).transpose()?;
    same("the loaded record", &found, &Some(decoded(record)?))
}

pub(super) async fn save_loads(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    same("an absent record", &load(&stores, &s).await?, &None)?;
    let mut record = session_record("", r#"[{"b":[1,2.5],"a":"[x]"}, "two", null, [[]]]"#);
    for (name, value) in [
        ("empty", "[]"),
        ("null", "null"),
        ("number", "-1.5e10"),
        ("object", r#"{"list":[1,2],"t":"ä\n\"\u0000"}"#),
        ("spaced", " [ 1 , 2 ] "),
    ] {
        record.state.insert(name.to_owned(), json(value));
    }
    stores.sessions.save(&s, &record, ExpectedVersion::Absent).await?;
    loads(&stores, &s, &record).await
}

pub(super) async fn save_replaces(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let long = session_record("long", "[1,2,3]");
    let mut short = SessionRecord { schema_version: "v2".to_owned(), ..session_record("", "[4]") };
    short.state.remove("text");
    short.updated_at = at(2_000);
    let mut turned = session_record("", "[]");
    turned.state.insert("text".to_owned(), json("[1]"));
    turned.state.insert("list".to_owned(), json("1"));
    let empty = SessionRecord { state: BTreeMap::new(), ..long.clone() };
    for record in [&long, &short, &empty, &turned, &long, &short] {
        let expected = expected(&stores, &s).await?;
        stores.sessions.save(&s, record, expected).await?;
        loads(&stores, &s, record).await?;
    }
    Ok(())
}

pub(super) async fn save_overwrites(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    for text in ["one", "two", "three"] {
        let record = session_record(text, "[]");
        stores.sessions.save(&s, &record, ExpectedVersion::Any).await?;
        loads(&stores, &s, &record).await?;
    }
    Ok(())
}

pub(super) async fn save_expects_absent(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let (one, two) = (session_record("one", "[1]"), session_record("two", "[2]"));
    stores.sessions.save(&s, &one, ExpectedVersion::Absent).await?;
    let again = stores.sessions.save(&s, &two, ExpectedVersion::Absent).await;
    conflict("`Absent` over a record", &again)?;
    loads(&stores, &s, &one).await
}

pub(super) async fn save_expects_exactly(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let (one, two) = (session_record("one", "[1]"), session_record("two", "[2]"));
    let absent = stores.sessions.save(&s, &one, ExpectedVersion::Exactly(RecordVersion(1))).await;
    conflict("`Exactly` over nothing", &absent)?;
    stores.sessions.save(&s, &one, ExpectedVersion::Absent).await?;
    let Some(first) = version(&stores, &s).await? else {
        return Err(ObservedBreach("the saved record is absent".to_owned()));
    };
    let ahead = ExpectedVersion::Exactly(RecordVersion(first.0 + 1));
    conflict("a version to come", &stores.sessions.save(&s, &two, ahead).await)?;
    loads(&stores, &s, &one).await?;
    stores.sessions.save(&s, &two, ExpectedVersion::Exactly(first)).await?;
    let stale = stores.sessions.save(&s, &one, ExpectedVersion::Exactly(first)).await;
    conflict("a version gone by", &stale)?;
    loads(&stores, &s, &two).await
}

pub(super) async fn save_decided_once(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    stores.sessions.save(&s, &session_record("before", "[]"), ExpectedVersion::Absent).await?;
    let expected = expected(&stores, &s).await?;
    let records: Vec<_> = (0..10).map(|n| session_record(&format!("save {n}"), "[1]")).collect();
    let saves = records.iter().map(|record| stores.sessions.save(&s, record, expected));
    let answers = join_all(saves).await;
    let won: Vec<_> = answers.iter().enumerate().filter(|(_, it)| it.is_ok()).collect();
    same("how many saves won", &won.len(), &1)?;
    for (_, lost) in answers.iter().enumerate().filter(|(_, it)| it.is_err()) {
        conflict("a late save", lost)?;
    }
    loads(&stores, &s, &records[won[0].0]).await
}

pub(super) async fn save_versions(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let mut last = None;
    for n in 0..5 {
        let expected = expected(&stores, &s).await?;
        let record = session_record(&n.to_string(), "[1,2]");
        let saved = Some(stores.sessions.save(&s, &record, expected).await?);
        ensure(saved > last, || format!("version {saved:?} after {last:?}"))?;
        same("the loaded version", &version(&stores, &s).await?, &saved)?;
        last = saved;
    }
    Ok(())
}

pub(super) async fn save_needs_idle(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let (one, two) = (session_record("one", "[1]"), session_record("two", "[2]"));
    stores.sessions.save(&s, &one, ExpectedVersion::Absent).await?;
    let exactly = expected(&stores, &s).await?;
    for (busy, idle) in [
        (RowMutation::Turn(turn(1)), RowMutation::Turn(ended(1))),
        (RowMutation::Wait(wait(1)), RowMutation::Wait(consumed(1))),
    ] {
        apply(&stores, &s, [busy]).await?;
        for expected in [ExpectedVersion::Any, exactly] {
            conflict("a busy session", &stores.sessions.save(&s, &two, expected).await)?;
        }
        loads(&stores, &s, &one).await?;
        apply(&stores, &s, [idle]).await?;
    }
    stores.sessions.save(&s, &two, exactly).await?;
    loads(&stores, &s, &two).await
}

pub(super) async fn save_whole(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let first = session_record("first", "[0]");
    stores.sessions.save(&s, &first, ExpectedVersion::Absent).await?;
    // A dropped save may still land while the next one runs: each record that is read is complete.
    let mut whole = vec![decoded(&first)?];
    for polls in 0..8 {
        let expected = expected(&stores, &s).await?;
        let record = session_record(&format!("save {polls}"), &format!("[{polls},2]"));
        let mut save = stores.sessions.save(&s, &record, expected);
        let mut is_done = false;
        for _ in 0..polls {
            is_done = is_done || (&mut save).now_or_never().is_some();
        }
        drop(save);
        whole.push(decoded(&record)?);
        let Some(found) = load(&stores, &s).await? else {
            return Err(ObservedBreach("the record is gone".to_owned()));
        };
        let found = decoded(&found)?;
        ensure(whole.contains(&found), || format!("a record that nobody saved: {found:?}"))?;
    }
    Ok(())
}

pub(super) async fn save_durable(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let record = session_record("one", "[1,2]");
    stores.sessions.save(&s, &record, ExpectedVersion::Absent).await?;
    let stores = bench.reopen(stores).await?;
    loads(&stores, &s, &record).await
}
