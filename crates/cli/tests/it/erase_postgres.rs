//! Erasing from a PostgreSQL database: erased data that is listed comes back with no backup (D25).

use serde_json::json;
use singletree_test_store::PostgresServer;

use crate::home::Home;
use crate::serving::Serving;

fn sessions(home: &Home, url: &str) -> Vec<String> {
    let (code, listed) = home.json(&["sessions", "list", "--store", url]);
    assert_eq!(code, 0, "{listed}");
    let listed = listed["sessions"].as_array().unwrap();
    listed.iter().map(|session| session["session"].as_str().unwrap().to_owned()).collect()
}

// D25
#[test]
fn a_restored_postgresql_database_loses_what_the_lists_of_its_servers_name() {
    let test = "a_restored_postgresql_database_loses_what_the_lists_of_its_servers_name";
    let Some(postgres) = PostgresServer::start(test) else { return };
    let (home, url) = (Home::new(), postgres.create_database("erased"));
    let lists = ["one", "two"].map(|name| home.path().join(name).display().to_string());
    let server = Serving::start(&home, &["--store", &url]);
    for (subject, session) in [("ann", "about-ann"), ("bob", "about-bob"), ("bob", "deleted")] {
        let path = format!("/v1/sessions/{session}/messages");
        let answer = server.ask_for(subject, &path, &json!({ "content": "what time is it?" }));
        assert_eq!(answer["status"], "completed", "{answer}");
    }
    let (code, key) = home.json(&["keys", "create", "--name", "lost", "--store", &url]);
    assert_eq!(code, 0, "{key}");
    // The server runs while the backup is made.
    let backup = postgres.dump_database("erased");
    server.stop();
    let restored = postgres.restore_database(&backup, "restored");

    // Through the server, which has a list of its own.
    let server = Serving::start(&home, &["--store", &url, "--list-erased", &lists[0]]);
    for command in [["sessions", "delete", "deleted"], ["keys", "revoke", key["key"]["id"].as_str().unwrap()]]
    {
        let ran = home.run(&[&command[..], &["--store", &url]].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
    server.stop();
    let erase = ["erase", "--subject", "ann", "--store", &url, "--list-erased", &lists[1]];
    assert_eq!(home.run(&erase).out, "erased: 1 conversation\n");
    assert_eq!(sessions(&home, &url), ["about-bob"]);

    for args in [&["backup.db", "--erased", &lists[0]][..], &[], &["--erased", "no-such-list"]] {
        let ran = home.run(&[&["restore", "--store", &restored], args].concat());
        assert_eq!(ran.code, 2, "{}", ran.err);
    }
    assert_eq!(sessions(&home, &restored).len(), 3);
    let [one, two] = &lists;
    let ran = home.run(&["restore", "--erased", one, "--erased", two, "--store", &restored]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.ends_with("\nleft out, since it was erased: 3\n"), "{}", ran.out);
    assert_eq!(sessions(&home, &restored), ["about-bob"]);
    let (_, keys) = home.json(&["keys", "list", "--store", &restored]);
    assert_eq!(keys[0]["state"], "revoked", "{keys}");
    let ran = home.run(&["doctor", "--store", &restored]);
    assert_eq!(ran.out, "1 sessions, 0 mended, 0 findings\n", "{}", ran.err);
    let server = Serving::start(&home, &["--store", &restored]);
    let again = json!({ "content": "and what time is it now?" });
    let answer = server.ask_for("bob", "/v1/sessions/about-bob/messages", &again);
    assert_eq!(answer["status"], "completed", "{answer}");
    server.stop();
}

#[test]
fn a_list_for_a_database_that_is_a_file_is_refused() {
    let home = Home::new();
    let ran = home.run(&["sessions", "list", "--list-erased", "list"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains(".erased"), "{}", ran.err);
}
