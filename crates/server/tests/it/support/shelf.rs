//! Documents in memory, until the stores keep them.

use std::collections::BTreeMap;
use std::sync::Mutex;

use singletree_durable::{
    Blob, BoxFuture, Change, Document, DocumentKey, Documents, Expect, Result, SessionKey, TenantId,
    Timestamp,
};

#[derive(Debug, Default)]
pub(crate) struct Shelf {
    documents: Mutex<BTreeMap<DocumentKey, Document>>,
    blobs: Mutex<BTreeMap<String, Blob>>,
}

fn named(key: &SessionKey, digest: &str) -> String {
    format!("{}/{}/{digest}", key.tenant, key.session)
}

impl Documents for Shelf {
    fn document<'a>(&'a self, key: &'a DocumentKey) -> BoxFuture<'a, Result<Option<Document>>> {
        Box::pin(async { Ok(self.documents.lock().unwrap().get(key).cloned()) })
    }

    fn documents<'a>(
        &'a self,
        tenant: &'a TenantId,
        kind: &'a str,
        past: Option<&'a str>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<Document>>> {
        Box::pin(async move {
            let documents = self.documents.lock().unwrap();
            let all = documents.values().filter(|it| it.key.tenant == *tenant && it.key.kind == kind);
            let past = all.filter(|it| past.is_none_or(|past| it.key.id.as_str() > past));
            Ok(past.take(usize::try_from(limit).unwrap()).cloned().collect())
        })
    }

    fn change(&self, changes: Vec<Change>) -> BoxFuture<'static, Result<()>> {
        let mut documents = self.documents.lock().unwrap();
        let holds = |key: &DocumentKey, expect: Expect| match expect {
            Expect::Any => true,
            Expect::Absent => !documents.contains_key(key),
            Expect::Version(version) => documents.get(key).is_some_and(|it| it.version == version),
        };
        let all = changes.iter().all(|it| match it {
            Change::Write { key, expect, .. } | Change::Remove { key, expect } => holds(key, *expect),
        });
        assert!(all, "refused");
        for change in changes {
            match change {
                Change::Write { key, session, body, expires_at, .. } => {
                    let version = documents.get(&key).map_or(0, |it| it.version) + 1;
                    let document = Document { key: key.clone(), session, body, version, expires_at };
                    documents.insert(key, document);
                }
                Change::Remove { key, .. } => drop(documents.remove(&key)),
            }
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn expire(&self, before: Timestamp, _limit: u64) -> BoxFuture<'static, Result<u64>> {
        let mut documents = self.documents.lock().unwrap();
        let all = documents.len();
        documents.retain(|_, it| it.expires_at.is_none_or(|it| it >= before));
        let gone = all - documents.len();
        Box::pin(std::future::ready(Ok(gone as u64)))
    }

    fn keep_blob(&self, key: &SessionKey, blob: Blob) -> BoxFuture<'static, Result<()>> {
        self.blobs.lock().unwrap().insert(named(key, &blob.digest), blob);
        Box::pin(std::future::ready(Ok(())))
    }

    fn blob<'a>(&'a self, key: &'a SessionKey, digest: &'a str) -> BoxFuture<'a, Result<Option<Blob>>> {
        Box::pin(async move { Ok(self.blobs.lock().unwrap().get(&named(key, digest)).cloned()) })
    }

    fn blob_bytes<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<u64>> {
        Box::pin(async move {
            let blobs = self.blobs.lock().unwrap();
            let mine = blobs.iter().filter(|(name, _)| name.starts_with(&named(key, "")));
            Ok(mine.map(|(_, it)| it.bytes.len() as u64).sum())
        })
    }
}
