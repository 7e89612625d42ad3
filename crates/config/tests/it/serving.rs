//! How agents are served: read whole, and every mistake told with its place.

use std::fs;
use std::path::Path;
use std::time::Duration;

use singletree_harness::Retention;

use crate::table::{MODEL, check_in, read_in};

const AGENT: &str = "agents.a = { instructions = \"x\" }\n";

fn check(text: &str, expect: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("jwks.json"), "{ \"keys\": [] }").unwrap();
    check_in(folder.path(), &format!("{MODEL}{AGENT}{text}"), expect);
}

#[test]
fn both_tables_are_read() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("jwks.json"), "{ \"keys\": [] }").unwrap();
    let text = r#"
[server]
listen = "0.0.0.0:80"
metrics = "127.0.0.1:9187"
origins = ["https://chat.example.com", "http://localhost:3000"]
log = false
body_bytes = "2MiB"
connections = 7
grace = "30s"
narration = "off"
narration_file = "told.jsonl"
narration_language = "zh"
narration_verbosity = "full"
narration_keep = 0
[auth]
required = true
[auth.tokens]
key_set = "jwks.json"
issuer = "https://id.example.com"
audiences = ["singletree"]
tenant_claim = "org"
scope_prefix = "chat:"
"#;
    let config = read_in(folder.path(), &format!("{MODEL}{AGENT}{text}")).unwrap();
    let serving = config.serving_settings();
    assert_eq!(serving.listen.as_deref(), Some("0.0.0.0:80"));
    assert_eq!(serving.metrics.as_deref(), Some("127.0.0.1:9187"));
    assert_eq!(serving.origins, ["https://chat.example.com", "http://localhost:3000"]);
    assert_eq!((serving.log, serving.body_bytes, serving.connections), (Some(false), Some(2 << 20), Some(7)));
    assert_eq!(
        (
            serving.narration,
            serving.narration_file.as_deref(),
            serving.narration_language.map(|it| it.as_str())
        ),
        (Some(false), Some(folder.path().join("told.jsonl").as_path()), Some("zh"))
    );
    let verbosity = serving.narration_verbosity.map(|it| it.as_str());
    assert_eq!((verbosity, serving.narration_keep), (Some("full"), Some(0)));
    assert_eq!((serving.grace, serving.blob_bytes), (Some(Duration::from_secs(30)), None));
    assert!(serving.key_required);
    let tokens = serving.tokens.as_ref().unwrap();
    assert_eq!(tokens.key_set, folder.path().join("jwks.json"));
    assert_eq!(
        (tokens.issuer.as_str(), tokens.audiences.as_slice()),
        ("https://id.example.com", &["singletree".to_owned()][..])
    );
    assert_eq!((tokens.tenant_claim.as_str(), tokens.scope_claim.as_str()), ("org", "scope"));
    assert_eq!((tokens.scope_prefix.as_str(), tokens.leeway), ("chat:", Duration::from_secs(30)));
    let silent = read_in(Path::new("nowhere"), &format!("{MODEL}{AGENT}")).unwrap();
    assert_eq!(*silent.serving_settings(), singletree_config::ServingSettings::default());
}

#[test]
fn quotas_of_keys_and_tenants_are_read() {
    let text = "[server.quotas.key]\nrequests = 5\nblob_bytes = \"1MiB\"\n[server.quotas.tenant]\nstreams = 9\nsign_ins = 3\ntokens = 7\n";
    let config = read_in(Path::new("nowhere"), &format!("{MODEL}{AGENT}{text}")).unwrap();
    let quotas = &config.serving_settings().quotas;
    assert_eq!(
        (quotas.key.requests, quotas.key.blob_bytes, quotas.key.streams),
        (Some(5), Some(1 << 20), None)
    );
    assert_eq!((quotas.tenant.streams, quotas.tenant.turns), (Some(9), None));
    assert_eq!((quotas.sign_ins, quotas.tokens), (Some(3), Some(7)));
    check(
        "[server.quotas.key]\nturns = 0\n",
        &["4:9: `server.quotas.key.turns` must be a whole number, 1 or more, not this whole number"],
    );
}

#[test]
fn what_is_wrong_about_the_server_is_told() {
    check(
        "[server]\nlisten = \"8787\"\norigins = [\"*\", \"https://a.example.com/\", \"\"]\nconnections = 0\nheader_bytes = 100\nport = 1\ngrace = 3\nblob_types = [\"image/png\", \"PNG\", \"image/*\"]\n",
        &[
            "4:10: `server.listen` must be a host and a port as in \"127.0.0.1:8787\"",
            "5:12: `server.origins` must begin with http:// or https://",
            "hint: write it as a browser does: \"https://chat.example.com\"",
            "5:17: `server.origins` must end with the host, or its port",
            "hint: write it as a browser does: \"https://chat.example.com\"",
            "5:43: `server.origins` must be a list of texts as in [\"one\", \"two\"], not an empty text",
            "6:15: `server.connections` must be a whole number, 1 or more, not this whole number",
            "7:1: `server.header_bytes` must be 8KiB or more",
            "8:1: `server` has no key `port`",
            "hint: write `listen = \"127.0.0.1:8787\"`",
            "9:9: `server.grace` must be a length of time as in \"30s\" (ms, s, m, h, d), not this whole number",
            "10:28: `server.blob_types` must be made of media types as \"image/png\"",
            "10:35: `server.blob_types` must be made of media types as \"image/png\"",
        ],
    );
    check(
        "[server]\nlisten = \"0.0.0.0:80\"\n",
        &[
            "4:10: `server.listen` can be reached by others, and nobody would be asked for a key",
            "hint: write `[auth]` with `required = true`, or listen at 127.0.0.1",
        ],
    );
    check("[server]\nlisten = \"[::1]:80\"\n", &[]);
    check(
        "[server]\nnarration = \"of\"\nnarration_language = \"it\"\nnarration_file = true\nnarration_verbosity = \"loud\"\nnarration_keep = -1\n",
        &[
            "4:13: `server.narration` must be one of \"on\", \"off\"",
            "hint: did you mean `off`?",
            "5:22: `server.narration_language` must be one of \"en\", \"de\", \"es\", \"fr\", \"ja\", \"zh\"",
            "6:18: `server.narration_file` must be a text that is not empty, not true or false",
            "7:23: `server.narration_verbosity` must be one of \"quiet\", \"normal\", \"full\"",
            "8:18: `server.narration_keep` must be a whole number, 0 or more, not this whole number",
        ],
    );
}

#[test]
fn what_is_wrong_about_tokens_is_told() {
    check(
        "[auth.tokens]\n",
        &[
            "3:7: `auth.tokens.key_set` is missing",
            "hint: the file of the issuer's public keys, a JSON Web Key Set",
            "3:7: `auth.tokens.issuer` is missing",
            "hint: what stands as `iss` in the tokens",
            "3:7: `auth.tokens.audiences` is missing",
            "hint: what stands as `aud` in tokens that are meant for this server",
        ],
    );
    check(
        "[auth]\nrequire = true\n[auth.tokens]\nkey_set = \"gone.json\"\nissuer = \"x\"\naudiences = []\nleeway = \"1h\"\n",
        &[
            "4:1: `auth` has no key `require`",
            "hint: did you mean `required`?",
            "6:11: the file of the public keys cannot be read: entity not found",
            "hint: the path is relative to the folder of this file",
            "8:1: `auth.tokens.audiences` is empty: no token would be meant for this server",
            "9:1: `auth.tokens.leeway` must be 5m or less: a token is over when it is over",
        ],
    );
}

#[test]
fn what_is_forgotten_is_read_and_without_the_table_nothing_is() {
    let folder = tempfile::tempdir().unwrap();
    let read = |text: &str| read_in(folder.path(), &format!("{MODEL}{AGENT}{text}")).unwrap().retention();
    assert_eq!(read(""), None);
    let all = Retention { turns: Some(1000), events: Some(10_000), age: Some(Duration::from_hours(90 * 24)) };
    assert_eq!(read("[retention]\nturns = 1000\nevents = 10000\nage = \"90d\"\n"), Some(all));
    assert_eq!(read("[retention]\nturns = 1\n"), Some(Retention { turns: Some(1), ..Retention::default() }));
    let told = [
        "4:9: `retention.turns` must be a whole number, 1 or more, not this whole number",
        "5:1: `retention` has no key `last`",
        "hint: there is `turns`, `events`, `age`",
    ];
    check("[retention]\nturns = 0\nlast = 3\n", &told);
}
