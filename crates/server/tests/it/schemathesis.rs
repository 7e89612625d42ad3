//! schemathesis, over the document that the server serves: valid and invalid requests made of it. No answer is a server
//! error or outside of the document, valid requests are taken, and invalid ones are refused.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::support::Rig;
use crate::support::installed::installed;

const EVERYTHING: [&str; 4] = ["read", "write", "approve", "admin"];

/// Operations whose answers do not end by themselves.
const ENDLESS: [&str; 2] = ["followEvents", "followTenantEvents"];

/// How many requests are made of each operation.
fn examples() -> &'static str {
    if std::env::var_os("SINGLETREE_DEEP").is_some() { "200" } else { "12" }
}

async fn run(program: &Path, which: &[&str]) {
    run_with(program, &format!("{CHECKS},positive_data_acceptance"), which).await;
}

async fn run_with(program: &Path, checks: &str, which: &[&str]) {
    let rig = Rig::asking().await;
    rig.pace.run_free();
    let made = rig.operator().post("/v1/keys", &json!({ "tenant": "t", "scopes": EVERYTHING })).await.json();
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    command
        .current_dir(folder.path())
        .args(["-m", "schemathesis.cli", "run", &format!("http://{}/openapi.json", rig.at)])
        .args(["--header", &format!("Authorization: Bearer {}", made["secret"].as_str().unwrap())])
        .args(["--phases", "examples,coverage,fuzzing", "--max-examples", examples(), "--seed", "7"])
        .args(["--checks", checks, "--generation-database", "none", "--no-color", "--request-timeout", "20"])
        .args(which);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let told =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}");
    assert!(told.contains("Test cases:"), "{told}");
}

/// The checks that run.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
                      response_schema_conformance,negative_data_rejection,ignored_auth,unsupported_method";

/// No schema says of bytes that they are a picture, so that some that are right by the document are refused.
const KEEPS_PICTURES_ONLY: &str = "keepBlob";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_made_of_the_document_is_answered_outside_of_it() {
    let Some(program) = installed("schemathesis", "python/bin/python") else { return };
    let [of_session, of_tenant] = ENDLESS;
    let excluded = [of_session, of_tenant, KEEPS_PICTURES_ONLY].map(|id| ["--exclude-operation-id", id]);
    run(&program, excluded.as_flattened()).await;
    run_with(&program, CHECKS, &["--include-operation-id", KEEPS_PICTURES_ONLY]).await;
    // Where there is no session, its events end before they begin.
    run(&program, &["--include-operation-id", of_session]).await;
}
