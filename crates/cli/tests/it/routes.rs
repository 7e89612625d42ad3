//! docs/api.md lists the operations of the native API: those of the server's own document, no more and no less.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

use crate::home::{Home, kill};

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md"));

/// Asks a server for its document.
fn document(home: &Home) -> Value {
    let mut server = home.spawn(&["serve", "--listen", "127.0.0.1:0"]);
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit('/').next().unwrap().to_owned();
    let mut wire = TcpStream::connect(&address).unwrap();
    write!(wire, "GET /openapi.json HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    wire.read_to_string(&mut answer).unwrap();
    kill(server);
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    serde_json::from_str(body).unwrap_or_else(|it| panic!("{it}: {answer}"))
}

/// Describes an operation as the page's table does: its method and path, its summary, and the scope that it needs.
fn row(method: &str, path: &str, operation: &Value) -> String {
    let about = operation["description"].as_str().unwrap_or_default();
    let scope = about.rsplit_once("Needs the scope `").and_then(|it| it.1.split_once('`')).map(|it| it.0);
    let scope = scope.map_or("none".to_owned(), |it| format!("`{it}`"));
    let summary = operation["summary"].as_str().unwrap();
    format!("| `{} {path}` | {summary} | {scope} |", method.to_uppercase())
}

#[test]
fn the_table_of_the_page_is_that_of_the_server() {
    let document = document(&Home::new());
    let mut expected = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            expected.push(row(method, path, operation));
        }
    }
    assert!(expected.len() > 20, "{expected:?}");
    let written: Vec<&str> = PAGE.lines().filter(|it| it.starts_with("| `") && it.contains(" /")).collect();
    assert_eq!(written, expected, "the page should have\n{}\n", expected.join("\n"));
}
