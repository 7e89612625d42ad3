//! Where notices are told: read whole, and every mistake told with its place and without text that may be a secret.

use std::path::Path;
use std::time::Duration;

use singletree_harness::NoticeType;

use crate::table::{MODEL, check_agents, read_in};

const AGENT: &str = "agents.a = { instructions = \"x\" }\n";

fn check(text: &str, expect: &[&str]) {
    check_agents(&format!("{AGENT}{text}"), expect);
}

#[test]
fn each_tenants_table_is_read() {
    let text = r#"
[notify.default]
url = "https://hooks.example.com/x?key=1"
secret = { env = "SINGLETREE_NOTIFY_SECRET" }
old_secret = { env = "SINGLETREE_NOTIFY_SECRET_OLD" }
events = ["suspended", "errored"]
expiring_before = "30m"
give_up_after = "3d"
link = "https://chat.example.com/{session}"
private_network = true
[notify.acme-2]
url = "http://127.0.0.1:9/hook"
secret = { env = "SINGLETREE_NOTIFY_SECRET" }
"#;
    let config = read_in(Path::new("nowhere"), &format!("{MODEL}{AGENT}{text}")).unwrap();
    let [first, second] = config.notify_settings() else { panic!("two tables") };
    assert_eq!((first.tenant.as_str(), first.url.as_str()), ("default", "https://hooks.example.com/x?key=1"));
    // Without the line end that it was pasted with.
    assert_eq!(first.secret.expose(), "canary-4711-that-signs-notices");
    assert!(first.old_secret.is_some() && first.private_network);
    assert_eq!(first.events, [NoticeType::Suspended, NoticeType::Errored]);
    let hours = |it: u64| Some(Duration::from_secs(it * 3600));
    assert_eq!((first.expiring_before, first.give_up_after), (Some(Duration::from_secs(1800)), hours(72)));
    assert_eq!(first.link.as_deref(), Some("https://chat.example.com/{session}"));
    assert_eq!((second.tenant.as_str(), second.events.as_slice()), ("acme-2", NoticeType::ALL.as_slice()));
    assert_eq!((second.expiring_before, second.give_up_after, second.link.as_deref()), (None, None, None));
    let shown = format!("{config:?}");
    assert!(!shown.contains("canary-4711"), "{shown}");
    let said = "it signs with canary-4711-that-signs-notices";
    assert!(!config.redactor().redact(said).contains("canary"));
}

#[test]
fn what_is_wrong_about_notices_is_told() {
    check(
        "[notify.default]\n[notify.\"a b\"]\n",
        &[
            "3:9: `notify.default.url` is missing",
            "hint: an address that takes POST, as in \"https://hooks.example.com/singletree\"",
            "3:9: `notify.default.secret` is missing",
            "hint: write { env = \"NAME\" } or { file = \"PATH\" }; `echo whsec_$(openssl rand -base64 32)` makes one",
            "4:9: a name in `notify` is made of letters, digits, `_` and `-`, 64 at most",
        ],
    );
    check(
        "[notify.t]\nurl = \"http://hooks.example.com/canary\"\nsecret = { env = \"KEY\" }\nevents = [\"suspend\"]\ngive_up_after = \"8d\"\nlink = \"chat\"\nurls = 1\n",
        &[
            "4:7: `notify.t.url` must begin with https://, unless it is on this machine",
            "5:18: the secret of `notify.t.secret` must have 24 bytes or more",
            "hint: `echo whsec_$(openssl rand -base64 32)` makes one",
            "6:11: `notify.t.events` must be made of \"suspended\", \"expiring\", \"resumed\", \"errored\"",
            "hint: did you mean `suspended`?",
            "7:1: `notify.t.give_up_after` must be 7d or less: notices are not kept longer",
            "8:8: `notify.t.link` must begin with http:// or https://",
            "hint: `{tenant}`, `{session}` and `{signal}` stand in it for those of a notice",
            "9:1: `notify.t` has no key `urls`",
            "hint: did you mean `url`?",
        ],
    );
    check(
        "[notify.t]\nurl = \"hooks\"\nsecret = \"canary-4711-canary-4711-canary\"\nevents = []\n",
        &[
            "4:7: `notify.t.url` is no address that can be called",
            "5:10: `notify.t.secret` holds a secret itself",
            "hint: write { env = \"NAME\" } or { file = \"PATH\" }; what stood here is known to whoever read the file",
            "6:1: `notify.t.events` is empty: nothing would be told",
        ],
    );
    check(
        "[notify.t]\nurl = \"https://x.example.com\"\nsecret = { env = \"NOT_SET\" }\n",
        &[
            "5:18: the environment variable NOT_SET is not set",
            "hint: set it before you start singletree, or take the key from a file: { file = \"PATH\" }",
        ],
    );
}
