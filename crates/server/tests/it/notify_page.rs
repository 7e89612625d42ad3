//! The documentation of notices: its receiver is run, and its description of signatures is compared with a third-party
//! library.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use singletree_durable::TenantId;
use singletree_harness::{NoticeSettings, SendOptions};
use singletree_http::Secret;
use singletree_llm::ChatMessage;
use singletree_server::Webhook;

use crate::support::installed::installed;
use crate::support::rig::within;
use crate::support::{Client, Receiver, Rig};

const PAGE: &str = include_str!("../../../../docs/notify.md");
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Returns the blocks of Python, one behind the other.
fn receiver() -> String {
    let mut blocks = PAGE.split("```python\n").skip(1).map(|it| it.split("```").next().unwrap());
    let code: String = blocks.by_ref().collect::<Vec<_>>().join("\n");
    assert!(code.contains("def verified") && code.contains("class Hook"), "{code}");
    code
}

/// A rig that tells the notices of `default` there, now: the receiver looks at its clock.
async fn telling(url: String) -> Rig {
    let webhook = Webhook::new(TenantId::single(), url, &Secret::new(SECRET)).unwrap();
    let notices = NoticeSettings::new().with_tenant_types(TenantId::single(), webhook.wanted_types());
    let rig = Rig::builder().chat(|it| it.notices(notices)).server(|it| it.webhooks([webhook]));
    rig.now().start().await
}

async fn suspend(rig: &Rig) {
    let turn = rig.chat.session("s").submit(ChatMessage::user("send"), SendOptions::new()).await.unwrap();
    assert_eq!(within(turn.outcome()).await.as_str(), "suspended");
}

struct Hook {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Hook {
    fn start(python: &Path) -> (Self, u16) {
        let mut child = Command::new(python)
            .args(["-c", &receiver(), "0"])
            .env("SECRET", SECRET)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut hook = Self { child, lines };
        let first = hook.line();
        let port = first.strip_prefix("listens at ").unwrap_or_else(|| panic!("{first}"));
        let port = port.parse().unwrap();
        (hook, port)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[tokio::test]
async fn the_pages_receiver_takes_what_is_signed_and_nothing_else() {
    let Some(python) = installed("the_pages_receiver", "python/bin/python") else { return };
    let (mut hook, port) = Hook::start(&python);
    let rig = telling(format!("http://127.0.0.1:{port}/")).await;
    suspend(&rig).await;
    let line = tokio::task::spawn_blocking(move || (hook.line(), hook));
    let (line, hook) = within(line).await.unwrap();
    assert_eq!(line, "suspended s send");
    let forged = Client::new(([127, 0, 0, 1], port).into())
        .with("webhook-id", "ntc_1")
        .with("webhook-timestamp", "1767225600")
        .with("webhook-signature", "v1,AAAA");
    assert_eq!(forged.post("/", &serde_json::json!({ "type": "suspended" })).await.status, 401);
    drop(hook);
    rig.stop().await;
}

#[tokio::test]
async fn a_library_of_others_finds_our_signature_good() {
    let Some(python) = installed("a_library_of_others", "python/bin/python") else { return };
    let mut told = Receiver::start().await;
    let rig = telling(told.url()).await;
    suspend(&rig).await;
    let told = told.next().await;
    let program = "import os, sys\nfrom standardwebhooks import Webhook\n\
        names = ['webhook-id', 'webhook-timestamp', 'webhook-signature']\n\
        headers = {name: os.environ[name.replace('-', '_')] for name in names}\n\
        print(Webhook(os.environ['SECRET']).verify(os.environ['BODY'], headers)['type'])\n";
    let run = |body: &str| {
        let mut command = Command::new(&python);
        command.args(["-c", program]).env("SECRET", SECRET).env("BODY", body);
        for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            command.env(name.replace('-', "_"), told.header(name));
        }
        command.output().unwrap()
    };
    let body = std::str::from_utf8(&told.body).unwrap();
    let good = run(body);
    assert_eq!(String::from_utf8_lossy(&good.stdout), "suspended\n", "{good:?}");
    let changed = run(&body.replace("\"s\"", "\"t\""));
    assert!(!changed.status.success(), "{changed:?}");
    rig.stop().await;
}
