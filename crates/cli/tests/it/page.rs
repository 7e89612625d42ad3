//! The page in a real browser: node drives Chromium against the binary's own server.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where a browser is, if there is one.
pub(crate) fn chromium() -> Option<PathBuf> {
    let named = env::var_os("SINGLETREE_CHROMIUM").map(PathBuf::from);
    let usual =
        ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].map(PathBuf::from);
    named.into_iter().chain(usual).find(|it| it.is_file())
}

pub(crate) fn not_run(name: &str, why: &str) {
    eprintln!("not run: {name}: {why}");
}

/// Runs the tests of a file under node.
fn check(file: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let name = format!("the page in a browser ({file})");
    let Some(tools) = env::var_os("SINGLETREE_TOOLS").map(PathBuf::from) else {
        return not_run(&name, "SINGLETREE_TOOLS is not set; .ci/run sets it");
    };
    if !tools.join("node_modules/playwright-core").is_dir() {
        return not_run(&name, "playwright-core is not there");
    }
    let Some(chromium) = chromium() else { return not_run(&name, "there is no Chromium") };
    let ran = Command::new("node")
        .args(["--test", "--test-concurrency=1", "--test-timeout=600000", "--test-reporter=spec"])
        .arg(root.join("crates/cli/tests/page").join(file))
        .env("SINGLETREE_TOOLS", tools)
        .env("SINGLETREE_CHROMIUM", chromium)
        .env("SINGLETREE_BIN", env!("CARGO_BIN_EXE_singletree"))
        .env("SINGLETREE_SHOTS", root.join("target/shots"))
        .stdin(Stdio::null())
        .output();
    let Ok(ran) = ran else { return not_run(&name, "there is no node") };
    let (told, wrong) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    for line in told.lines().filter(|it| it.contains(" ms") || it.contains(" kB")) {
        eprintln!("page: {}", line.trim());
    }
    // What failed stands at the end, behind the list of what passed.
    let failed = told.split_once("failing tests:").map_or(&*told, |(_, failed)| failed);
    assert!(ran.status.success(), "{failed}\n{wrong}");
}

// INV-2, D9, D12
#[test]
fn a_person_talks_approves_reloads_and_loses_nothing_in_a_browser() {
    check("page.test.mjs");
}

// S6
#[test]
fn an_approval_shows_all_that_is_approved_in_a_browser_and_who_signs_out_is_out() {
    check("approval.test.mjs");
}

// U1, U2, U7 to U13, U16
#[test]
fn an_answer_is_told_from_its_first_moment_to_its_end_in_a_browser() {
    check("answers.test.mjs");
}

// U3 to U6
#[test]
fn approvals_are_told_from_question_to_answer_in_a_browser() {
    check("decisions.test.mjs");
}

// INV-9, F5
#[test]
fn narration_and_artifacts_are_shown_in_a_browser_and_decide_nothing() {
    check("narration.test.mjs");
}

// INV-9; acceptance 11 of campaigns
#[test]
fn a_campaign_is_approved_paused_resumed_and_survives_a_kill_in_a_browser() {
    check("campaigns.test.mjs");
}

#[test]
fn the_texts_of_campaigns_have_six_languages() {
    check_plain("campaign_words.test.mjs");
}

// S6
#[test]
fn what_nobody_sees_is_an_escape_on_the_page() {
    check_plain("visible_text.test.mjs");
}

// INV-16
#[test]
fn what_others_say_is_inert_in_a_browser_and_keys_are_not_kept() {
    check("hostile.test.mjs");
}

/// The code that folds events into a conversation, without a browser.
#[test]
fn the_pages_model_of_a_conversation() {
    check_plain("conversation.test.mjs");
}

fn check_plain(file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page").join(file);
    let ran = Command::new("node").arg("--test").arg(path).stdin(Stdio::null()).output();
    let Ok(ran) = ran else { return not_run(file, "there is no node") };
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
}
