//! Erasing everything that is kept for a person or a tenant (D25).

use std::time::Duration;

use singletree_durable::{DocumentStore, Journal, SubjectId, TenantId};
use singletree_engine::Graph;
use singletree_harness::{AuditRecord, Blobs, Chat, ErasureScope, ForkOptions};
use singletree_test_store::TestStore;

use crate::bench::{Log, TokioClock, chain, chat_of, name, say, user};

fn subject(text: &str) -> SubjectId {
    SubjectId::parse(text).unwrap()
}

fn scope(text: &str) -> ErasureScope {
    ErasureScope::Subject(subject(text))
}

fn chat(store: &TestStore) -> Chat {
    let graph = chain(say(Graph::builder(), &Log::default(), "n"), &["n"]);
    let chat = chat_of(&graph).clock(TokioClock::new()).blobs(Blobs::new(store.clone()));
    chat.audit(Duration::from_secs(86_400)).open(store.clone()).unwrap()
}

async fn sessions(chat: &Chat) -> Vec<String> {
    chat.sessions(None, 99).await.unwrap().items.into_iter().map(|it| it.session).collect()
}

async fn audit(store: &TestStore) -> Vec<String> {
    let found = store.read_documents(&TenantId::single(), AuditRecord::KIND, None, 99).await.unwrap();
    found.iter().map(|it| format!("{} {}", it.key.id, it.body.as_str())).collect()
}

// D25
#[tokio::test(start_paused = true)]
async fn erasing_a_subject_deletes_its_sessions_with_all_forks_and_hides_its_names() {
    let store = TestStore::new();
    let chat = chat(&store);
    let (ann, bob) = (chat.on_behalf_of(subject("ann")), chat.on_behalf_of(subject("bob")));
    for (chat, session) in [(&ann, "of-ann"), (&bob, "of-bob"), (&chat, "of-nobody"), (&bob, "gone")] {
        chat.session(session).send(user("hello")).await;
    }
    // A fork of a fork, and a fork by somebody else.
    ann.session("of-ann").fork(ForkOptions::new().session("fork")).await.unwrap();
    bob.session("fork").fork(ForkOptions::new().session("fork-of-fork")).await.unwrap();
    let kept = store.read_session(&name("fork-of-fork")).await.unwrap().unwrap();
    assert_eq!(kept.head.subject, Some(subject("ann")), "a fork is its source's");
    chat.session("gone").delete(Some("ann")).await.unwrap();

    let listed = chat.erasable_sessions(&scope("ann")).await.unwrap();
    let listed: Vec<&str> = listed.iter().map(|it| it.as_str()).collect();
    assert_eq!(listed.len(), 3, "{listed:?}");
    assert_eq!(chat.erase(&scope("ann"), Some("operator")).await.unwrap(), 3);
    assert_eq!(sessions(&chat).await, ["of-bob", "of-nobody"]);
    let entries = audit(&store).await;
    assert_eq!(entries.len(), 4);
    for name in ["ann", "fork"] {
        assert!(entries.iter().all(|it| !it.contains(name)), "{entries:?}");
    }
    assert!(entries.iter().any(|it| it.contains("gone")), "what is not hers stays");
    assert_eq!(chat.erase(&scope("ann"), None).await.unwrap(), 0);
}

// D25
#[tokio::test(start_paused = true)]
async fn what_a_stopped_erasure_left_is_found_again() {
    let store = TestStore::new();
    let chat = chat(&store);
    let ann = chat.on_behalf_of(subject("ann"));
    ann.session("a").send(user("hello")).await;
    ann.session("a").fork(ForkOptions::new().session("b")).await.unwrap();
    ann.session("b").fork(ForkOptions::new().session("c")).await.unwrap();
    // As far as each prefix of the deletions.
    let listed = chat.erasable_sessions(&scope("ann")).await.unwrap();
    for (done, session) in listed.iter().enumerate() {
        chat.session(session.as_str()).delete(None).await.unwrap();
        let left = chat.erasable_sessions(&scope("ann")).await.unwrap();
        assert_eq!(left.len(), listed.len() - done - 1);
    }
}

// D25, INV-14
#[tokio::test(start_paused = true)]
async fn erasing_a_tenant_leaves_the_others() {
    let store = TestStore::new();
    let chat = chat(&store);
    let other = chat.of(TenantId::parse("other").unwrap());
    chat.session("s").send(user("hello")).await;
    other.session("s").send(user("hello")).await;
    chat.session("never").delete(Some("ann")).await.unwrap();
    assert_eq!(chat.erase(&ErasureScope::Tenant, Some("operator")).await.unwrap(), 1);
    assert_eq!((sessions(&chat).await, sessions(&other).await), (vec![], vec!["s".to_owned()]));
    assert!(audit(&store).await.is_empty());
}
