//! Questions and decisions: approve, reject, and everything that must not be one (INV-7; D2).

use std::time::Duration;

use serde_json::{Value, json};
use singletree_durable::DocumentKey;
use singletree_harness::{Answer, SignalAddress};

use super::asking::{Shell, directives, error, message, option, question, saying, texts, with_id};
use crate::support::Rig;

fn code(answer: &Value) -> String {
    error(answer).0
}

#[tokio::test]
async fn a_question_shows_the_exact_action_and_has_a_token_for_each_answer() {
    let rig = Rig::start().await;
    let answer = Shell::of(&rig).say("s", "send").await;
    let asked = question(&answer);
    let payload = &asked["payload"];
    assert_eq!(asked["risk_tier"], "dangerous");
    // To execute the directive is to ask: asking whether it may be executed would be asking twice.
    assert_eq!(asked.get("requires_user_approval"), None);
    assert_eq!(payload["action"]["name"], "send");
    assert_eq!(payload["action"]["params_summary"], "what: \"a\"");
    // The SHA-256 of {"what":"a"}.
    let digest = "ceeba18b2171ab105e1769722731ed45c059b58e47e27389d6f3c3cbcbf01c9c";
    assert_eq!(payload["action"]["params_sha256"], digest);
    let run = answer["response"]["extensions"]["dev.singletree"]["run_id"].clone();
    let tokens: Vec<_> = ["approve", "reject"].map(|it| option(&answer, it)).into();
    for token in &tokens {
        assert_eq!(token["run_id"], run);
        assert_eq!(token["continuation_token"].as_str().unwrap().len(), "ctok_".len() + 43);
    }
    assert_ne!(tokens[0], tokens[1]);
    assert!(rig.world.done().is_empty());
    rig.stop().await;
}

// S6
#[tokio::test]
async fn what_is_not_shown_whole_can_be_rejected_and_not_approved() {
    let rig = Rig::start().await;
    let shell = Shell::of(&rig);
    let options = |answer: &Value| -> Vec<String> {
        let options = question(answer)["payload"]["options"].clone();
        options.as_array().unwrap().iter().map(|option| option["id"].as_str().unwrap().to_owned()).collect()
    };
    let shown = |answer: &Value| question(answer)["payload"]["action"]["params_summary"].clone();
    let long = shell.say("long", &format!("send {} to Eve", "x".repeat(5_000))).await;
    assert_eq!(options(&long), ["approve", "reject"]);
    assert!(shown(&long).as_str().unwrap().ends_with(" to Eve\""), "{long}");

    let longer = shell.say("longer", &format!("send {} to Eve", "x".repeat(40_000))).await;
    assert_eq!(options(&longer), ["reject"]);
    assert!(
        question(&longer)["payload"]["prompt"].as_str().unwrap().contains("too long to be approved here")
    );
    assert_eq!(texts(&shell.decide(&option(&longer, "reject")).await), ["Not done."]);

    let hidden = shell.say("hidden", "send a\u{200b}\u{202e}b").await;
    assert_eq!(shown(&hidden), "what: \"a\\u{200b}\\u{202e}b\"");
    assert!(rig.world.done().is_empty());
    rig.stop().await;
}

#[tokio::test]
async fn who_approves_gets_what_comes_of_it_and_who_rejects_too() {
    let rig = Rig::start().await;
    let shell = Shell::of(&rig);
    let waiting = shell.say("yes", "send").await;
    let done = shell.decide(&option(&waiting, "approve")).await;
    assert_eq!(texts(&done), ["All done."]);
    assert_eq!(rig.world.done(), ["send a"]);
    let waiting = shell.say("no", "send").await;
    let done = shell.decide(&option(&waiting, "reject")).await;
    assert_eq!(texts(&done), ["Not done."]);
    assert_eq!(rig.world.done(), ["send a"]);
    rig.stop().await;
}

#[tokio::test]
async fn two_questions_of_one_message_are_asked_one_after_the_other() {
    let rig = Rig::start().await;
    let shell = Shell::of(&rig);
    let first = shell.say("s", "sends").await;
    let second = shell.decide(&option(&first, "approve")).await;
    assert_ne!(question(&first)["payload"]["signal_id"], question(&second)["payload"]["signal_id"]);
    assert!(rig.world.done().is_empty());
    let done = shell.decide(&option(&second, "approve")).await;
    assert_eq!(texts(&done), ["All done."]);
    assert_eq!(rig.world.done(), ["send a", "send b"]);
    // The first token gets its outcome again: the second question, with the same tokens.
    let again = shell.decide(&option(&first, "approve")).await;
    assert_eq!(again["response"], second["response"]);
    rig.stop().await;
}

// spec: OpenHarness §9.2: idempotent resume
#[tokio::test]
async fn a_token_that_was_used_says_again_what_came_of_it_and_the_other_one_is_dead() {
    let rig = Rig::start().await;
    let shell = Shell::of(&rig);
    let waiting = shell.say("s", "send").await;
    let approve = option(&waiting, "approve");
    let done = shell.decide(&approve).await;
    let asked = with_id(message(json!({"continuation": approve, "user_intent": "no, stop"})), "other");
    let again = shell.ask(&asked).await;
    assert_eq!(again["response"], done["response"]);
    assert_eq!(again["request_id"], "other");
    assert_eq!(code(&shell.decide(&option(&waiting, "reject")).await), "continuation_invalid");
    assert_eq!(rig.world.done(), ["send a"]);
    rig.stop().await;
}

#[tokio::test]
async fn of_both_decisions_at_once_exactly_one_counts() {
    for _ in 0..20 {
        let rig = Rig::start().await;
        let shell = Shell::of(&rig);
        let waiting = shell.say("s", "send").await;
        let [yes, no] = ["approve", "reject"].map(|it| option(&waiting, it));
        let [one, two, three] = [shell.clone(), shell.clone(), shell.clone()];
        let (one, two, three) = tokio::join!(one.decide(&yes), two.decide(&no), three.decide(&yes));
        let approved = one["response"]["status"] == "success";
        assert_ne!(approved, two["response"]["status"] == "success", "{one} {two}");
        assert_eq!(one["response"], three["response"]);
        let dead = if approved { &two } else { &one };
        assert_eq!(code(dead), "continuation_invalid");
        assert_eq!(rig.world.done().len(), usize::from(approved));
        rig.stop().await;
    }
}

#[tokio::test]
async fn what_fits_nothing_is_no_continuation() {
    let rig = Rig::start().await;
    let shell = Shell::of(&rig);
    let waiting = shell.say("s", "send").await;
    let token = option(&waiting, "approve")["continuation_token"].clone();
    let check = async |context: Value| {
        assert_eq!(code(&shell.ask(&message(context.clone())).await), "continuation_invalid", "{context}");
    };
    check(json!({"continuation": {"continuation_token": "ctok_aq9"}})).await;
    check(json!({"continuation": {"continuation_token": ""}})).await;
    check(json!({"continuation": {"continuation_token": token, "run_id": "another"}})).await;
    check(json!({"session_id": "t", "continuation": {"continuation_token": token}})).await;
    check(json!({"session_id": "s", "conversation_id": "c", "continuation": {"continuation_token": token}}))
        .await;
    // A request that does not fit has not used up the token.
    let context = json!({"session_id": "s", "continuation": {"continuation_token": token}});
    assert_eq!(texts(&shell.ask(&message(context)).await), ["All done."]);
    rig.stop().await;
}

// D1, docs/narration.md: a typed reply is a new command and never answers a question
#[tokio::test]
async fn a_typed_yes_decides_nothing() {
    let rig = Rig::start().await;
    let shell = Shell::of(&rig);
    shell.say("s", "send").await;
    for yes in ["yes", "approve", "APPROVED"] {
        let answer = shell.say("s", yes).await;
        assert_eq!(answer["response"]["error"]["details"]["error_category"], "chat_session_suspended");
    }
    assert!(rig.world.done().is_empty());
    rig.stop().await;
}

#[tokio::test]
async fn a_question_that_was_answered_elsewhere_tells_the_same_to_who_decides_the_same() {
    let rig = Rig::start().await;
    let shell = Shell::of(&rig);
    let waiting = shell.say("s", "send").await;
    let pending = rig.chat.session("s").pending().await.unwrap().remove(0);
    let address =
        SignalAddress::Session { session: "s".into(), signal: pending.descriptor.signal_id.clone() };
    let approved = json!({"approved": true}).as_object().cloned().unwrap();
    let answer = Answer::new(approved).to(pending.wait.no, pending.wait.action.clone().unwrap());
    rig.chat.answer(address, answer).await.unwrap().outcome().await;
    assert_eq!(texts(&shell.decide(&option(&waiting, "approve")).await), ["All done."]);
    let other = shell.decide(&option(&waiting, "reject")).await;
    assert_eq!(code(&other), "continuation_invalid");
    assert_eq!(rig.world.done(), ["send a"]);
    rig.stop().await;
}

#[tokio::test]
async fn a_shell_that_lost_its_tokens_asks_how_the_run_stands_and_gets_new_ones() {
    let rig = Rig::start().await;
    let shell = Shell::of(&rig);
    let waiting = shell.say("s", "send").await;
    let run = json!({"run_id": option(&waiting, "approve")["run_id"]});
    let shown = shell.decide(&run).await;
    assert_eq!(question(&shown)["payload"]["action"], question(&waiting)["payload"]["action"]);
    assert_ne!(option(&shown, "approve"), option(&waiting, "approve"));
    assert_eq!(texts(&shell.decide(&option(&shown, "reject")).await), ["Not done."]);
    // The tokens of the first question are for the same wait, which is over.
    assert_eq!(texts(&shell.decide(&option(&waiting, "reject")).await), ["Not done."]);
    let over = shell.decide(&run).await;
    assert_eq!(texts(&over), ["Not done."]);
    for context in
        [json!({"continuation": {"run_id": "nothing"}}), json!({"session_id": "t", "continuation": run})]
    {
        assert_eq!(code(&shell.ask(&message(context)).await), "continuation_invalid");
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_question_without_a_deadline_can_be_decided_for_a_week() {
    let rig = Rig::start().await;
    let shell = Shell::of(&rig);
    let waiting = shell.say("s", "send").await;
    rig.clock.advance(Duration::from_hours(7 * 24));
    assert_eq!(code(&shell.decide(&option(&waiting, "approve")).await), "continuation_expired");
    assert!(rig.world.done().is_empty());
    rig.stop().await;
}

#[tokio::test]
async fn no_token_is_in_the_store_and_none_outlives_its_session() {
    let rig = Rig::start().await;
    let shell = Shell::of(&rig);
    let waiting = shell.ask(&with_id(saying("s", "send"), "r")).await;
    let approve = option(&waiting, "approve");
    let secret = approve["continuation_token"].as_str().unwrap();
    let tenant = singletree_durable::TenantId::single();
    let kept = async || {
        let mut kept = Vec::new();
        for kind in ["continuation", "openharness_reply"] {
            kept.extend(rig.documents.read_documents(&tenant, kind, None, 100).await.unwrap());
        }
        kept
    };
    let before = kept().await;
    assert_eq!(before.len(), 3);
    for document in &before {
        let DocumentKey { id, .. } = &document.key;
        assert!(!document.body.as_str().contains(&secret[5..]) && !id.contains(&secret[5..]), "{document:?}");
    }
    rig.chat.session("s").delete(None).await.unwrap();
    assert!(kept().await.is_empty());
    assert_eq!(code(&shell.decide(&approve).await), "continuation_invalid");
    rig.stop().await;
}

// A shell that cannot ask gets a text that names the place where the approval can be answered.
#[tokio::test]
async fn a_shell_that_cannot_ask_gets_words_and_no_tokens() {
    let rig = Rig::start().await;
    let mut asked = saying("s", "send");
    asked["capabilities"] = json!({"openharness.ui.approval": false});
    let answer = Shell::of(&rig).ask(&asked).await;
    assert_eq!(question(&answer)["payload"]["options"], json!([]));
    let told = texts(&answer);
    let signal = question(&answer)["payload"]["signal_id"].as_str().unwrap().to_owned();
    assert!(told[0].contains(&signal), "{told:?}");
    assert_eq!(directives(&answer).len(), 2);
    rig.stop().await;
}
