//! `singletree health`: the check that a container or a supervisor runs.

use crate::home::Home;
use crate::serving::Serving;

#[test]
fn health_is_0_while_a_server_is_ready_and_1_before_and_after() {
    let home = Home::new();
    let before = home.run(&["health"]);
    assert_eq!((before.code, before.out.as_str()), (1, ""), "{}", before.err);
    assert!(before.err.contains("no server runs over"), "{}", before.err);

    let server = Serving::start(&home, &["--auth"]);
    // It listens before it has recovered the turns of an earlier process.
    let beside = (0..500).map(|_| home.run(&["health"])).find(|ran| ran.code == 0).unwrap();
    assert_eq!((beside.code, beside.out.as_str()), (0, "ready\n"), "{}", beside.err);
    let url = server.url.clone();
    let by_address = home.run(&["health", "--url", &url]);
    assert_eq!((by_address.code, by_address.out.as_str()), (0, "ready\n"), "{}", by_address.err);

    server.stop();
    for args in [vec!["health"], vec!["health", "--url", url.as_str()]] {
        let after = home.run(&args);
        assert_eq!((after.code, after.out.as_str()), (1, ""), "{args:?}: {}", after.err);
        assert!(after.err.starts_with("not ready: "), "{}", after.err);
    }
}
