//! The suite on the memory store, and the suite itself on stores that break one clause each.

use std::collections::BTreeSet;
use std::sync::Arc;

use singletree_store_testing::{ContractClause, FaultyStoreFactory, check};

use crate::memory::MemoryStores;

#[tokio::test]
async fn the_memory_store_keeps_every_promise() {
    let mut broken = Vec::new();
    for &clause in ContractClause::all() {
        broken.extend(check(clause, &MemoryStores::default()).await.err().map(|it| it.to_string()));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[tokio::test]
async fn breaking_nothing_fails_nothing() {
    for &clause in ContractClause::all() {
        check(clause, &FaultyStoreFactory::new(Arc::new(MemoryStores::default()), None)).await.unwrap();
    }
}

#[tokio::test]
async fn breaking_one_clause_fails_its_check_and_no_other() {
    let mut wrong = Vec::new();
    for &broken in ContractClause::all() {
        for &clause in ContractClause::all() {
            let saboteur = FaultyStoreFactory::new(Arc::new(MemoryStores::default()), Some(broken));
            let verdict = check(clause, &saboteur).await;
            if verdict.is_err() != (broken == clause) {
                wrong.push(format!("{broken:?} broken, {clause:?} checked: {verdict:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn names_and_texts_of_clauses_are_told_apart() {
    let all = ContractClause::all();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    assert_eq!(all.iter().map(|it| it.name()).collect::<BTreeSet<_>>().len(), all.len());
    assert_eq!(all.iter().map(|it| it.text()).collect::<BTreeSet<_>>().len(), all.len());
    assert!(all.iter().all(|it| it.text().ends_with('.')));
}
