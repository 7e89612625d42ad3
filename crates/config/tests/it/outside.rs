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
    let check = |file: &str, expect: &[&str]| {
        check_in(folder.path(), &model(&format!("{{ file = \"{file}\" }}")), expect)
    };
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
        &[
            "2:38: the script cannot be used: the script does not read at line 2, column 12: invalid type: integer `3`, \
           expected a sequence at line 2 column 12",
        ],
    );
}

#[test]
fn a_prompt_is_rendered_with_the_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("prompts")).unwrap();
    fs::write(folder.path().join("prompts/plain.md"), "Be brief.\n").unwrap();
    fs::write(folder.path().join("prompts/shop.md"), "You are at {{ shop }}.\n").unwrap();
    fs::write(folder.path().join("prompts/talk.md"), "[[system]]\nx\n\n[[user]]\ny\n").unwrap();
    let check = |prompt: &str, expect: &[&str]| {
        check_in(folder.path(), &format!("{}agents.a.prompt = {prompt}\n", crate::table::MODEL), expect);
    };
    check("\"plain\"", &[]);
    check("{ name = \"shop\", variables = { shop = \"Books\" } }", &[]);
    check(
        "{ label = \"x\" }",
        &[
            "2:10: `agents.a.prompt.name` is missing",
            "hint: the name of a file in the folder of prompts, without its ending",
        ],
    );
    check("\"talk\"", &["2:19: the prompt `talk` is a conversation, and instructions are one text"]);
    check(
        "\"none\"",
        &[
            "2:19: the prompt `none` cannot be used: no prompt is called \"none\" under the label \"production\"",
            "hint: it would stand in prompts/none.md",
        ],
    );
    check(
        "\"shop\"",
        &[
            "2:19: the prompt `shop` cannot be used: the prompt \"shop\" (version \"8f367c4dc226\", label \"production\") was not \
         rendered: `shop` is undefined (line 1); not given: `shop`",
            "hint: give what it needs: prompt = { name = \"NAME\", variables = { key = \"value\" } }",
        ],
    );
}
