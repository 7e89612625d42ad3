//! The clients that people use: Vercel's `ai` in three versions, AG-UI's own client in two, and the page in a browser.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::fault_of;
use super::model::{WAYS, Way};
use super::rig::{ErringRig, TIMES};
use super::wires::Seen;
use crate::page::{chromium, not_run};

/// A client: its name in messages, the file that shows that it is installed, and the script that drives it.
struct ClientProgram {
    name: &'static str,
    installed: &'static str,
    script: &'static str,
    arguments: &'static [&'static str],
}

fn session_of(client: &ClientProgram, way: &Way) -> String {
    format!("{}-{}", client.name, way.name)
}

/// Returns the result of a client, by session; `None` where the client is not installed.
fn drive(client: &ClientProgram, tools: &Path, rig: &ErringRig) -> Option<Value> {
    if !tools.join("node_modules").join(client.installed).exists() {
        not_run(client.name, "it is not installed");
        return None;
    }
    let case = |way: &Way| json!({ "session": session_of(client, way), "text": way.text(client.name) });
    let cases: Value = WAYS.iter().map(case).collect();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(client.script);
    let mut command = Command::new("node");
    command.arg(script).arg(tools).args(client.arguments).arg(&rig.server.url).arg(cases.to_string());
    if let Some(chromium) = chromium() {
        command.env("SINGLETREE_CHROMIUM", chromium);
    }
    command.env("SINGLETREE_TOOLS", tools).env("SINGLETREE_BIN", crate::home::BINARY);
    let ran = command.stdin(Stdio::null()).output().unwrap();
    let (told, problems) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{}: {told}\n{problems}", client.name);
    Some(serde_json::from_str(told.lines().last().unwrap_or_default()).unwrap())
}

/// Returns the faults of one client over all ways.
fn faults(client: &ClientProgram, seen: &Value, rig: &ErringRig) -> Vec<String> {
    let mut wrong = Vec::new();
    for way in WAYS {
        let session = session_of(client, way);
        let one = &seen[&session];
        let view = Seen { failed: one["failed"] == true, text: one["text"].as_str().map(str::to_owned) };
        // The page gives its sessions their ids.
        let opened = one["session"].as_str().unwrap_or(&session);
        let fault = fault_of(way, &way.text(client.name), opened, &rig.server, &view);
        let reload = one["fault"].as_str().map(str::to_owned);
        let unseen = one.is_null().then(|| "the client has not run it".to_owned());
        let found = [unseen, fault, reload].into_iter().flatten();
        wrong.extend(found.map(|fault| format!("{session}: {fault}")));
    }
    wrong
}

/// Runs every way to err with each of the clients that are installed.
fn check(name: &str, clients: &[ClientProgram]) {
    let Some(tools) = std::env::var_os("SINGLETREE_TOOLS").map(PathBuf::from) else {
        return not_run(name, "SINGLETREE_TOOLS is not set; .ci/run sets it");
    };
    if Command::new("node").arg("--version").output().is_err() {
        return not_run(name, "there is no node");
    }
    let rig = ErringRig::start(TIMES);
    let mut wrong: Vec<String> = Vec::new();
    let mut ran: Vec<&ClientProgram> = Vec::new();
    std::thread::scope(|scope| {
        let (tools, rig) = (&tools, &rig);
        let drive = |client| (client, scope.spawn(move || drive(client, tools, rig)));
        let driven: Vec<_> = clients.iter().map(drive).collect();
        for (client, driven) in driven {
            if let Some(seen) = driven.join().unwrap() {
                wrong.extend(faults(client, &seen, rig));
                ran.push(client);
            }
        }
    });
    let sent = rig.stop();
    for (client, way) in ran.iter().flat_map(|client| WAYS.iter().map(move |way| (client, way))) {
        let times = sent.iter().filter(|body| **body == way.text(client.name)).count();
        if times != way.effects {
            let session = session_of(client, way);
            wrong.push(format!("{session}: it acted {times} times, not {}", way.effects));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), ran.len() * WAYS.len(), wrong.join("\n"));
}

// spec: harness-chat §10; D29, D30, D32
#[test]
fn an_erring_model_is_told_by_the_chat_of_ai_in_each_version_and_a_reload_shows_the_same() {
    let client = |name, installed, arguments| {
        let script = "clients/erring_ui.mjs";
        ClientProgram { name, installed, script, arguments }
    };
    check(
        "an erring model and ai",
        &[
            client("ai-5", "ai/package.json", &["ai"]),
            client("ai-6", "ai-6/package.json", &["ai-6"]),
            client("ai-7", "ai-7/package.json", &["ai-7"]),
        ],
    );
}

// spec: harness-chat §10; D29, D30, D32
#[test]
fn an_erring_model_is_told_by_the_clients_of_ag_ui_and_a_new_client_holds_the_same() {
    let client = |name, installed, arguments| {
        let script = "clients/erring_agui.mjs";
        ClientProgram { name, installed, script, arguments }
    };
    check(
        "an erring model and AG-UI",
        &[
            client("ag-ui-0", "@ag-ui/client-0/package.json", &["@ag-ui/client-0"]),
            client("ag-ui-1", "@ag-ui/client/package.json", &["@ag-ui/client"]),
        ],
    );
}

// U2, U14; D29, D30, D32
#[test]
fn an_erring_model_is_told_on_the_page_and_a_reload_shows_the_same() {
    const NAME: &str = "an erring model and the page in a browser";
    if chromium().is_none() {
        return not_run(NAME, "there is no Chromium");
    }
    let script = "page/erring.mjs";
    check(NAME, &[ClientProgram { name: "page", installed: "playwright-core", script, arguments: &[] }]);
}
