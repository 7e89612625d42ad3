//! Sessions of a graph kept where you want them: here, one JSON file for each. Run it twice.
//! `cargo run -p singletree --example custom_store -- FOLDER`. A store for production passes the suite of
//! `singletree-store-testing`.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{fs, io, path::PathBuf, sync::Arc};

use singletree::durable::{
    self as store, BoxFuture, ExpectedVersion, RecordVersion, SessionKey, SessionRecord, SessionStore,
};
use singletree::durable::{SessionFilter, SessionSummary, TenantId};
use singletree::engine::InvokeOptions;
use singletree::{Ctx, END, Graph, State};

#[derive(Debug)]
struct Folder(PathBuf);
type Reply<'a, T> = BoxFuture<'a, store::Result<T>>;

impl Folder {
    fn write(&self, key: &SessionKey, stored: &(SessionRecord, RecordVersion)) -> io::Result<()> {
        fs::write(self.0.join(".draft"), serde_json::to_vec(stored)?)?;
        fs::rename(self.0.join(".draft"), self.0.join(key.session.as_str())) // whole or not at all
    }
}

fn failed(doing: &'static str) -> impl FnOnce(io::Error) -> store::Error {
    move |source| store::Error::Unavailable { doing, source: source.into() }
}

impl SessionStore for Folder {
    fn load<'a>(&'a self, key: &'a SessionKey) -> Reply<'a, Option<(SessionRecord, RecordVersion)>> {
        Box::pin(async move {
            match fs::read(self.0.join(key.session.as_str())) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                text => text.and_then(|text| Ok(serde_json::from_slice(&text)?)).map_err(failed("load it")),
            }
        })
    }

    fn save<'a>(
        &'a self,
        key: &'a SessionKey,
        new: &'a SessionRecord,
        expected: ExpectedVersion,
    ) -> Reply<'a, RecordVersion> {
        Box::pin(async move {
            let found = self.load(key).await?.map(|(_, version)| version);
            if expected != ExpectedVersion::Any
                && expected != found.map_or(ExpectedVersion::Absent, ExpectedVersion::Exactly)
            {
                return Err(store::Error::Conflict { key: key.clone(), expected, found });
            }
            let version = RecordVersion(found.map_or(1, |found| found.0 + 1));
            self.write(key, &(new.clone(), version)).map_err(failed("save it"))?;
            Ok(version)
        })
    }

    fn delete<'a>(&'a self, key: &'a SessionKey) -> Reply<'a, ()> {
        Box::pin(async move { fs::remove_file(self.0.join(key.session.as_str())).or(Ok(())) })
    }

    fn list<'a>(&'a self, _: &'a TenantId, _: &'a SessionFilter) -> Reply<'a, Vec<SessionSummary>> {
        Box::pin(async { Err(failed("list sessions")(io::ErrorKind::Unsupported.into())) })
    }
}

#[derive(State)]
struct Counter {
    visits: i64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Folder(std::env::args().nth(1).ok_or("usage: custom_store FOLDER")?.into());
    let count = async |cx: Ctx<Counter>| Ok(Counter::update().visits(cx.state().visits + 1));
    let graph = Graph::<Counter>::builder().node("count", count).edge("count", END).entry("count");
    let graph = graph.session_store(Arc::new(folder)).compile()?;
    let alice = InvokeOptions::new().session(store::SessionId::parse("alice")?);
    println!("visits: {}", graph.invoke(Counter::update(), alice).await?.state().visits);
    Ok(())
}
