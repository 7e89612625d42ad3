//! The torture of several nodes over one PostgreSQL database.

use serde_json::Value;

use crate::home::Home;
use singletree_test_store::PostgresServer;

/// How many kills: a few in a plain run. `.ci/chaos` has the full figures.
const KILLS: &str = "4";

// INV-1, INV-2, INV-3, INV-6, INV-7, INV-8
#[test]
fn nothing_is_lost_doubled_or_contradicted_by_three_nodes_that_are_killed_stopped_and_cut_off() {
    let test = "nothing_is_lost_doubled_or_contradicted_by_three_nodes";
    let Some(postgres) = PostgresServer::start_own(test) else { return };
    let (home, url) = (Home::new(), postgres.create_database("chaos"));
    let (folder, restart) = (home.path().join("torture"), postgres.restart_command());
    let folder = folder.to_str().unwrap();
    let arguments =
        ["torture", "--nodes", "3", "--store", &url, "--restart-with", &restart, "--kills", KILLS];
    let ran = home.run(&[&arguments[..], &["--seed", "4711", "--folder", folder, "--json"]].concat());
    let verdict: Value = serde_json::from_str(&ran.out).unwrap_or_else(|it| panic!("{it}: {ran:?}"));
    assert_eq!((ran.code, verdict["violations"].as_array().map(Vec::len)), (0, Some(0)), "{verdict:#}");
    for count in ["lost", "doubled", "orphaned", "contradicted", "stuck"] {
        assert_eq!(verdict[count], 0, "{verdict:#}");
    }
    assert_eq!(verdict["kills"]["total"].to_string(), KILLS);
    for fault in ["pauses", "stalls", "delays", "cuts", "restarts", "moved"] {
        assert!(verdict["nodes"][fault].as_u64() > Some(0), "no {fault}: {verdict:#}");
    }
    // Somebody else's conversations are not the load's.
    let again = home.run(&["torture", "--nodes", "3", "--store", &url, "--kills", "1"]);
    assert_eq!((again.code, again.out.as_str()), (2, ""), "{}", again.err);
    assert!(again.err.contains("has sessions"), "{}", again.err);
}
