//! What a file names outside itself.

use std::fs;

use crate::table::{check, check_in};

const AGENT: &str = "agents.a = { instructions = \"x\", model = \"m\" }\n";

fn model(key: &str) -> String {
    format!("{AGENT}[models.m]\nwire = \"anthropic\"\nname = \"x\"\nkey = {key}\n")
}

#[test]
fn a_variable_that_is_not_set_is_told_by_its_name_unless_it_may_be_a_key() {
    let hint = "hint: set it before you start singletree, or take the key from a file: { file = \"PATH\" }";
    check(&model("{ env = \"KEY\" }"), &[]);
    check(&model("{ env = \"NO_KEY\" }"), &["5:15: the environment variable NO_KEY is not set", hint]);
    check(&model("{ env = \"EMPTY\" }"), &["5:15: the environment variable EMPTY is not set", hint]);
    check(&model("{ env = \"AIzaCanary4711\" }"), &["5:15: the environment variable is not set", hint]);
}

#[test]
fn what_no_agent_uses_is_not_asked_for() {
    let unused = "[models.n]\nwire = \"gemini\"\nname = \"x\"\nkey = { env = \"NO_KEY\" }\n\
                  [mcp.s]\ncommand = \"x\"\nenv = { TOKEN = { env = \"NO_KEY\" } }\n";
    check(&format!("{}{unused}", model("{ env = \"KEY\" }")), &[]);
}

#[test]
fn a_file_is_looked_for_beside_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("key"), "canary-4711\n").unwrap();
    fs::write(folder.path().join("empty"), "\n").unwrap();
    let hint = "hint: the path is relative to the folder of this file";
    let check = |file: &str, expect: &[&str]| check_in(folder.path(), &model(&format!("{{ file = \"{file}\" }}")), expect);
    check("key", &[]);
    check("canary-4711", &["5:16: the file of the key cannot be read: entity not found", hint]);
    check("empty", &["5:16: the file of the key is empty", hint]);
}

#[test]
fn a_script_is_read_with_the_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("s.json"), r#"{ "model": "s", "rules": [] }"#).unwrap();
    fs::write(folder.path().join("wrong.json"), "{\n  \"rules\": 3 }").unwrap();
    let check = |file: &str, expect: &[&str]| {
        let text = format!("{AGENT}models.m = {{ wire = \"script\", file = \"{file}\" }}\n");
        check_in(folder.path(), &text, expect);
    };
    check("s.json", &[]);
    check(
        "wrong.json",
        &["2:38: the script cannot be used: the script does not read at line 2, column 12: invalid type: integer `3`, \
           expected a sequence at line 2 column 12"],
    );
}
