//! Answers of a model that do not fit the request, and how a turn goes on with them (D30).

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use singletree_durable::MemoryStore;
use singletree_harness::{Chat, ChatEventKind};
use singletree_llm::{Error, ModelFinishReason, ModelRetryPolicy, RetryBackoff};
use singletree_tools::Recovery;

use crate::plays::{Plays, calls, ended, fails, says};
use crate::probe::World;
use crate::rig::{
    SESSION, completed, decide, errored, open, send, small_with, suspended, transcript, watched,
};

fn chat_of(plays: &Arc<Plays>, world: &World) -> Chat {
    open(small_with(plays.clone(), world, Recovery::Report).build().unwrap(), MemoryStore::new())
}

// Finding W2 (a)
#[tokio::test]
async fn calls_that_do_not_fit_are_answered_with_what_is_wrong_and_the_sound_ones_run_once() {
    let bad = || {
        calls(&[
            ("a", "act", "{\"what\":"),
            ("b", "fly", "{}"),
            ("c", "send", "{\"wot\":1}"),
            ("d", "act", "{\"what\":\"it\",\"more\":1}"),
            ("e", "act", "{\"what\":\"it\"}"),
        ])
    };
    for (plays, how) in [
        (Plays::of([bad(), says("Sorry, done.")]), "streamed"),
        (Plays::whole([bad(), says("Sorry, done.")]), "whole"),
    ] {
        let world = World::default();
        let chat = chat_of(&plays, &world);
        let outcome = send(&chat, "go").await;
        assert_eq!(completed(&outcome).replies.last().unwrap().text(), "Sorry, done.", "{how}");
        assert_eq!(world.whats(), ["act it"], "{how}");
        let transcript = transcript(&chat).await;
        assert_eq!(
            transcript[1],
            "assistant: [actnull][fly{}][send{\"wot\":1}][act{\"more\":1,\"what\":\"it\"}][act{\"what\":\"it\"}]"
        );
        assert_eq!(
            transcript[2],
            "tool: error: the arguments are not a JSON object; what was written: {\"what\":"
        );
        assert_eq!(transcript[3], "tool: error: there is no tool \"fly\"; the tools are: look, act, send");
        let misfit = "tool: error: the arguments do not fit the schema: at ";
        assert!(transcript[4].starts_with(misfit) && transcript[4].contains("wot"), "{transcript:?}");
        assert!(transcript[5].starts_with(misfit) && transcript[5].contains("more"), "{transcript:?}");
        assert_eq!(transcript[6..], ["tool: did it", "assistant: Sorry, done."]);
        // The model was shown all of it, in a request that a provider takes.
        assert_eq!(plays.last_request().check().map_err(|it| it.to_string()), Ok(()), "{how}");
        assert_eq!(plays.asked(), 2, "{how}");
    }
}

#[tokio::test]
async fn repairs_in_a_row_are_bounded_and_each_is_counted_as_a_call_of_the_model() {
    let bad = || calls(&[("a", "fly", "{}")]);
    let good = || calls(&[("a", "look", "{\"what\":\"a\"}")]);
    let plays = Plays::of([bad(), bad(), bad(), good(), bad(), bad(), bad(), bad()]);
    let chat = chat_of(&plays, &World::default());
    let outcome = send(&chat, "go").await;
    let error = errored(&outcome);
    assert_eq!(error.error_category, "provider_invalid_response");
    assert!(error.diagnostic.contains("\"fly\" is not a tool of this request"), "{error:?}");
    assert_eq!(plays.asked(), 8);
    let used = chat.turn(error.turn.as_ref().unwrap()).await.unwrap().usage().await.unwrap();
    assert_eq!(used[0].calls, 8, "{used:?}");
    // Nothing at all, where nothing is to be repaired.
    let (plays, world) = (Plays::of([bad()]), World::default());
    let agent = small_with(plays.clone(), &world, Recovery::Report).repairs(0).build().unwrap();
    let outcome = send(&open(agent, MemoryStore::new()), "go").await;
    assert_eq!(errored(&outcome).error_category, "provider_invalid_response");
    assert_eq!(plays.asked(), 1);
}

#[tokio::test]
async fn calls_of_one_id_get_ids_of_their_own() {
    let twice =
        calls(&[("a", "act", "{\"what\":\"1\"}"), ("", "look", "{\"what\":\"2\"}"), ("", "fly", "{}")]);
    let (plays, world) = (Plays::of([twice, says("Done.")]), World::default());
    let chat = chat_of(&plays, &world);
    completed(&send(&chat, "go").await);
    assert_eq!(world.whats(), ["act 1", "look 2"]);
    let request = plays.last_request();
    let called: Vec<_> = request.messages[2].tool_calls.iter().map(|call| call.id.clone()).collect();
    let answered: Vec<_> =
        request.messages[3..].iter().filter_map(|message| message.tool_call_id.clone()).collect();
    assert_eq!(called, answered);
    assert_eq!(called.iter().collect::<std::collections::BTreeSet<_>>().len(), 3, "{called:?}");
}

#[tokio::test]
async fn what_needs_an_approval_beside_a_call_that_does_not_fit_still_gets_one() {
    let mixed = calls(&[("a", "fly", "{}"), ("b", "send", "{\"what\":\"it\"}")]);
    let (plays, world) = (Plays::of([mixed, says("Done.")]), World::default());
    let chat = chat_of(&plays, &world);
    suspended(&send(&chat, "go").await);
    assert_eq!(world.whats(), Vec::<String>::new());
    completed(&decide(&chat, json!({ "approved": true })).await);
    assert_eq!(world.whats(), ["send it"]);
    assert!(transcript(&chat).await[2].contains("there is no tool \"fly\""));
}

#[tokio::test]
async fn an_answer_without_a_word_is_asked_for_once_more() {
    for empty in ["", " \n"] {
        let plays = Plays::of([says(empty), says("Here.")]);
        let chat = chat_of(&plays, &World::default());
        let outcome = send(&chat, "go").await;
        assert!(completed(&outcome).answer.is_usual());
        assert_eq!(transcript(&chat).await, ["user: go", "assistant: Here."]);
        // Twice, and the turn ends without that message: harness-chat §7, an empty tail.
        let act = calls(&[("a", "act", "{\"what\":\"it\"}")]);
        let (plays, world) = (Plays::of([act, says(empty), says(empty), says("Next.")]), World::default());
        let chat = chat_of(&plays, &world);
        let outcome = send(&chat, "go").await;
        let turn = completed(&outcome);
        assert!(turn.answer.empty_answer);
        assert_eq!(turn.replies.len(), 2);
        let read = chat.turn(&turn.turn).await.unwrap().outcome().await;
        assert_eq!(completed(&read).answer, turn.answer);
        assert_eq!(world.whats(), ["act it"]);
        // The conversation goes on.
        completed(&send(&chat, "more").await);
        let expected = ["user: go", "assistant: [act{\"what\":\"it\"}]", "tool: did it", "user: more"];
        assert_eq!(transcript(&chat).await[..4], expected);
    }
}

// Finding W12
#[tokio::test]
async fn why_an_answer_stopped_is_told_with_the_outcome_and_beside_the_message() {
    for (reason, told) in [
        (ModelFinishReason::Stop, None),
        (ModelFinishReason::Length, Some("length")),
        (ModelFinishReason::ContentFilter, Some("content_filter")),
    ] {
        let chat = chat_of(&Plays::of([ended("Half an", reason)]), &World::default());
        let outcome = send(&chat, "go").await;
        let turn = completed(&outcome);
        assert_eq!(turn.answer.finish_reason.map(ModelFinishReason::as_str), told);
        let read = chat.turn(&turn.turn).await.unwrap().outcome().await;
        assert_eq!(completed(&read).answer, turn.answer);
        let beside = chat.session(SESSION).history(1..2).await.unwrap().remove(0).side;
        let beside = beside.and_then(|side| side["finish_reason"].as_str().map(str::to_owned));
        assert_eq!(beside.as_deref(), told);
    }
}

// Finding F20; D36
#[tokio::test]
async fn an_answer_that_broke_off_is_asked_for_again_and_listeners_are_told() {
    let plays = Plays::of([
        ended("Half an", ModelFinishReason::Error),
        fails(Error::RateLimit),
        ended("A whole answer.", ModelFinishReason::Stop),
    ]);
    let retry = ModelRetryPolicy::new().backoff(RetryBackoff::Constant(Duration::from_secs(40)));
    let agent = small_with(plays.clone(), &World::default(), Recovery::Report).retry(retry).build().unwrap();
    let chat = open(agent, MemoryStore::new());
    let events = watched(&chat, "go", &[]).await;
    let mut told = Vec::new();
    for event in &events {
        match &event.what {
            ChatEventKind::TurnRetrying { attempt, until, category } => {
                assert_eq!(*until, event.at.saturating_add(Duration::from_secs(40)));
                told.push(format!("{attempt} {category}"));
            }
            ChatEventKind::Delta { run, text, .. } => told.push(format!("run {run} {text}")),
            _ => {}
        }
    }
    assert_eq!(
        told,
        ["run 1 Half an", "2 provider_unavailable", "3 provider_rate_limit", "run 2 A whole answer."]
    );
    assert_eq!(transcript(&chat).await, ["user: go", "assistant: A whole answer."]);
}

// Finding W10; D19
#[tokio::test]
async fn what_a_model_thinks_is_shown_where_the_agent_says_so() {
    for shown in [false, true] {
        let thinks = vec![
            singletree_llm::ResponseDelta::from_thinking("let me"),
            singletree_llm::ResponseDelta::from_thinking(" see"),
            singletree_llm::ResponseDelta::from_text("Four."),
            singletree_llm::ResponseDelta::Finish {
                reason: ModelFinishReason::Stop,
                usage: crate::plays::usage(),
                raw: serde_json::Value::Null,
            },
        ];
        let plays = Plays::of([Ok(thinks)]);
        let agent = small_with(plays, &World::default(), Recovery::Report).show_thinking(shown);
        let chat = open(agent.build().unwrap(), MemoryStore::new());
        let events = watched(&chat, "go", &[]).await;
        let thought: String = events
            .iter()
            .filter_map(|event| match &event.what {
                ChatEventKind::ThinkingDelta { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(thought, if shown { "let me see" } else { "" });
    }
}
