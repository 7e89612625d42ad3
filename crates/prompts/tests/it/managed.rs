//! Managers: fallback, groups, and the texts of errors.

use std::error::Error as _;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use singletree_prompts::{
    Error, MemoryBackend, Prompt, PromptGroup, PromptInputs, PromptManager, PromptQuery,
};

use crate::support::{Counting, Told, at};

fn store(version: &str) -> Arc<Counting> {
    Counting::new(MemoryBackend::new().with(Prompt::text("p", version, "x")))
}

// spec: prompt-management §9
#[tokio::test]
async fn a_fallback_is_told_with_its_reasons_and_only_where_another_answered() {
    let (first, second) = (store("first"), store("second"));
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = told.clone();
    let prompts = PromptManager::builder(first.clone())
        .fallback(second.clone())
        .on_fallback(move |it| {
            let reasons: Vec<String> = it.passed_over.iter().map(ToString::to_string).collect();
            tell.lock().unwrap().push((it.name.to_owned(), it.label.to_owned(), it.answered, reasons));
        })
        .build();
    assert_eq!(prompts.fetch_prompt("p").await.unwrap().version(), "first");
    first.is_away.store(true, Ordering::SeqCst);
    assert_eq!(prompts.fetch_prompt("p").await.unwrap().version(), "second");
    second.is_away.store(true, Ordering::SeqCst);
    let error = prompts.fetch_prompt("p").await.unwrap_err();
    assert_eq!((error.category(), error.is_transient()), ("prompt_store_unavailable", true));
    assert_eq!(error.to_string(), "no backend of prompts can be reached (the store is away)");
    assert_eq!(error.source().unwrap().to_string(), "the store is away");
    let reasons = vec!["the store is away".to_owned()];
    assert_eq!(*told.lock().unwrap(), [("p".to_owned(), "production".to_owned(), 1, reasons)]);
}

#[tokio::test]
async fn what_the_first_backend_does_not_have_is_not_found() {
    let (first, second) = (store("first"), store("second"));
    first.is_empty.store(true, Ordering::SeqCst);
    let prompts = PromptManager::builder(first).fallback(second.clone()).build();
    let error = prompts.fetch_prompt(PromptQuery::new("p").label("staging")).await.unwrap_err();
    assert_eq!(error.to_string(), r#"no prompt is called "p" under the label "staging""#);
    assert!(!error.is_transient());
    assert_eq!(second.reads.load(Ordering::SeqCst), 0);
}

// spec: prompt-management §4
#[tokio::test]
async fn a_result_knows_when_its_prompt_was_fetched_and_when_it_was_rendered() {
    let (fetching, rendering) = (Told::at(5), Told::at(7));
    let backend = MemoryBackend::new().with(Prompt::text("p", "1", "x")).with_clock(fetching);
    let prompts = PromptManager::builder(backend).clock(rendering).build();
    let result = prompts.get("p", &PromptInputs::new()).await.unwrap();
    assert_eq!((result.prompt().fetched_at(), result.rendered_at()), (at(5), at(7)));
}

// spec: prompt-management §10
#[tokio::test]
async fn a_group_has_two_members_or_more() {
    let prompts = PromptManager::builder(store("1")).build();
    let result = prompts.get("p", &PromptInputs::new()).await.unwrap();
    for members in [0, 1] {
        let error = PromptGroup::new("g", vec![result.clone(); members]).unwrap_err();
        assert_eq!((error.category(), error.is_transient()), ("prompt_group_invalid", false));
        assert!(matches!(error, Error::GroupInvalid { members: it, .. } if it == members));
    }
    let group = PromptGroup::new("g", [result.clone(), result]).unwrap();
    assert_eq!((group.name(), group.members().len()), ("g", 2));
}

#[tokio::test]
async fn a_prompt_is_checked_without_inputs() {
    let prompts = PromptManager::builder(store("1")).build();
    let check =
        |template: &str| prompts.check_prompt(&Prompt::text("p", "1", template)).map_err(|it| it.category());
    assert_eq!(check("Hello, {{ whoever }}!"), Ok(()));
    assert_eq!(check("Hello, {{ whoever"), Err("prompt_render_error"));
}
