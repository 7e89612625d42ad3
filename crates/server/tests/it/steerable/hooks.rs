//! The framework's own hooks, in a page without a browser.

use std::path::Path;

use serde_json::{Value, json};

use crate::clients::{installed, run};
use crate::support::Rig;

#[tokio::test]
async fn the_frameworks_own_hooks_show_what_is_kept() {
    let test = "the_frameworks_own_hooks_show_what_is_kept";
    let Some((tools, _)) = installed(test, "node_modules/@steerable/agent-ui/package.json") else { return };
    let rig = Rig::start().await;
    let told = run(&rig, Path::new("node"), &[tools.as_os_str()], "steerable.mjs").await;
    println!("{}", serde_json::to_string_pretty(&told).unwrap());
    panic!();
}
