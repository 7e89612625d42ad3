//! The things that a file names outside itself.

use std::fs;

use singletree_config::{Config, Error, InspectionDepth};

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

/// Asserts the mistakes about a server that are reported on request only; otherwise the file has no mistakes.
#[cfg(unix)]
#[test]
fn a_program_is_looked_for_where_it_would_be_started() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    for (name, mode) in [("rooms", 0o755), ("plain", 0o644)] {
        fs::write(bin.join(name), "").unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let path = folder.path().join("f");
    let env = |name: &str| match name {
        "PATH" => Some(format!("/nowhere:{}", bin.display())),
        other => crate::table::env(other),
    };
    let check = |server: &str, expect: &[&str]| {
        let agents = "agents.a = { instructions = \"x\", tools = [\"s\"] }\n";
        fs::write(&path, format!("{}{agents}[mcp.s]\n{server}\n", crate::table::MODEL)).unwrap();
        let around = singletree_config::Surroundings { folder: folder.path(), env: &env };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert!(runtime.block_on(Config::load(&path, &around)).is_ok(), "agents go on without it: {server}");
        let told = match runtime.block_on(Config::inspect(&path, &around, InspectionDepth::Programs)) {
            Err(Error::Invalid(report)) => report.mistakes,
            other => other.map(|_| Vec::new()).unwrap(),
        };
        let told: Vec<String> = told
            .iter()
            .flat_map(|it| [Some(format!("{}:{}: {}", it.line, it.column, it.what)), it.hint.clone()])
            .flatten()
            .collect();
        assert_eq!(told, expect, "{server}");
    };
    let name = "install it, correct its name, or write its whole path";
    let place = "a relative path starts where the server does: in its `folder`, else in that of this file";
    check("command = \"rooms\"", &[]);
    check("command = \"bin/rooms\"", &[]);
    check("command = \"./rooms\"\nfolder = \"bin\"", &[]);
    check("command = \"/bin/sh\"", &[]);
    check("command = \"romms\"", &["4:11: `mcp.s.command` is `romms`, which is in no folder of PATH", name]);
    check("command = \"plain\"", &["4:11: `mcp.s.command` is `plain`, which is in no folder of PATH", name]);
    check(
        "command = \"rooms\"\nenv = { PATH = \"/nowhere\" }",
        &["4:11: `mcp.s.command` is `rooms`, which is in no folder of PATH", name],
    );
    check("command = \"./rooms\"", &["4:11: `mcp.s.command` is `./rooms`, which is not there", place]);
    check(
        "command = \"bin/plain\"",
        &[
            "4:11: `mcp.s.command` is `bin/plain`, which nobody may run",
            "make it a program: chmod +x bin/plain",
        ],
    );
    check(
        "command = \"rooms\"\nfolder = \"gone\"",
        &[
            "4:11: `mcp.s.command` is `rooms`, whose folder is not there",
            "`folder` is relative to the folder of this file",
        ],
    );
}
