//! Mistakes in syntax, keys and values: each with its place and a hint.

use crate::table::{check, check_agents};

/// An agent that is sound beside a model, on one line.
const AGENT: &str = "agents.a = { instructions = \"x\" }\n";

#[test]
fn what_is_no_toml_is_told_where_it_is_none() {
    check("a = [1,\n", &["1:8: this is no TOML: unclosed array, expected `]`"]);
    check(
        "[models.main]\nwire = openai\nname = \n",
        &[
            "2:8: this is no TOML: string values must be quoted, expected literal string",
            "hint: a text stands in quotation marks",
            "3:8: this is no TOML: string values must be quoted, expected literal string",
        ],
    );
    check("[models.m]\n[models.m]\n", &["2:9: this is no TOML: duplicate key"]);
}

#[test]
fn an_empty_file_is_told_what_it_lacks() {
    let hint = "hint: write `[agents.NAME]` with its `instructions`; `singletree init` shows how";
    check("", &["1:1: there is no agent", hint]);
    check("# nothing\n\n", &["1:1: there is no agent", hint]);
    check("[agents]\n", &["1:1: there is no agent", hint]);
    let hint = "hint: write `[models.NAME]` with its `wire`; `singletree init` shows how";
    check("[agents.a]\ninstructions = \"x\"\n", &["1:9: there is no model", hint]);
}

#[test]
fn unknown_keys_are_told_with_what_was_meant() {
    check_agents(
        "agent.a = { instructions = \"x\" }\n",
        &[
            "1:1: there is no agent",
            "hint: write `[agents.NAME]` with its `instructions`; `singletree init` shows how",
            "2:1: this file has no key `agent`",
            "hint: did you mean `agents`?",
        ],
    );
    check_agents(
        "[agents.a]\ninstructions = \"x\"\nsystem_prompt = \"y\"\nhand-offs = []\nwindwo = 3\nhandoffs = []\n",
        &[
            "4:1: `agents.a` has no key `system_prompt`",
            "hint: it is called `instructions` here",
            "5:1: `agents.a` has no key `hand-offs`",
            "hint: did you mean `hand_offs`?",
            "6:1: `agents.a` has no key `windwo`",
            "hint: did you mean `window`?",
            "7:1: `agents.a` has no key `handoffs`",
            "hint: it is called `hand_offs` here",
        ],
    );
    check(
        &format!(
            "{AGENT}[models.m]\nprovider = \"openai\"\nmodel = \"x\"\napi_key = \"sk-1\"\ntemperature = 1\nurl = \"y\"\n"
        ),
        &[
            "2:9: `models.m.wire` is missing",
            "hint: one of \"openai\", \"anthropic\", \"gemini\", \"script\"",
            "3:1: `models.m` has no key `provider`",
            "hint: it is called `wire` here",
            "4:1: `models.m` has no key `model`",
            "hint: it is called `name` here",
            "5:1: `models.m` has no key `api_key`",
            "hint: write `key = { env = \"NAME\" }`",
            "6:1: `models.m` has no key `temperature`",
            "hint: it stands in `sampling` here: `sampling = { temperature = 0.2 }`",
            "7:1: `models.m` has no key `url`",
            "hint: it is called `base_url` here",
        ],
    );
    check_agents(
        &format!("{AGENT}mcp_servers.x = {{}}\n[tools.note]\n[limits]\nx = 1\n"),
        &[
            "3:1: this file has no key `mcp_servers`",
            "hint: they stand in `[mcp.NAME]` here",
            "4:8: `tools` has no key `note`",
            "hint: there is `call_time`, `output_bytes`, `http_get`",
            "6:1: `limits` has no key `x`",
            "hint: there is `queue`, `message_bytes`, `steps`, `tool_calls`, `tokens`, `messages`, `history_bytes`, `page_bytes`, \
             `turn_time`, `turn_age`, `hot_sessions`, `busy_sessions`, `loaded_bytes`",
        ],
    );
}

#[test]
fn a_model_says_how_it_is_reached() {
    let check = |model: &str, expect: &[&str]| check(&format!("{AGENT}models.m = {model}\n"), expect);
    check(
        "{}",
        &[
            "2:8: `models.m.wire` is missing",
            "hint: one of \"openai\", \"anthropic\", \"gemini\", \"script\"",
        ],
    );
    check(
        "{ wire = \"opanai\", name = \"x\", key = { env = \"KEY\" } }",
        &[
            "2:21: `models.m.wire` must be one of \"openai\", \"anthropic\", \"gemini\", \"script\"",
            "hint: did you mean `openai`?",
        ],
    );
    check(
        "{ wire = \"gemini\" }",
        &[
            "2:8: `models.m.name` is missing",
            "hint: what the vendor calls the model, as in `name = \"gemini-2.5-flash\"`",
            "2:8: `models.m.key` is missing",
            "hint: write `key = { env = \"GEMINI_API_KEY\" }`, or the `base_url` of a server that wants none",
        ],
    );
    check(
        "{ wire = \"script\" }",
        &["2:8: `models.m.file` is missing", "hint: the file of its rules, as in `file = \"script.json\"`"],
    );
    check(
        "{ wire = \"script\", file = \"s.json\", name = \"x\", retry = {} }",
        &[
            "2:38: the script cannot be read: entity not found",
            "hint: the path is relative to the folder of this file",
            "2:48: `name` says nothing to a model of wire \"script\"",
            "2:60: `retry` says nothing to a model of wire \"script\"",
        ],
    );
    // spec: llm-provider §8.2: each call would be refused.
    check(
        "{ wire = \"anthropic\", name = \"x\", base_url = \"http://h\", sampling = { seed = 1, top_p = 0.5, presence_penalty = 1 } }",
        &[
            "2:82: `models.m.sampling.seed` says nothing to a model of wire \"anthropic\"",
            "2:105: `models.m.sampling.presence_penalty` says nothing to a model of wire \"anthropic\"",
        ],
    );
    check(
        "{ wire = \"openai\", name = \"x\", base_url = \"127.0.0.1\" }",
        &["2:54: `models.m.base_url` must begin with http:// or https://"],
    );
    check(
        "{ wire = \"openai\", name = \"x\", base_url = \"https://me:hunter2@host/v1\" }",
        &["2:54: `models.m.base_url` must hold no name and no password"],
    );
}

#[test]
fn values_are_of_their_type_and_within_reason() {
    check_agents(
        "[agents.a]\ninstructions = \"\"\ntools = [\"clock\", 3]\nwindow = 0\nwhile_suspended = \"wait\"\nhidden = 1\non_disconnect = \"stop\"\n\
         budget = { steps = -1, turn_time = 30, history_bytes = \"1MB\", tokens = 1.5 }\n",
        &[
            "3:16: `agents.a.instructions` must be a text that is not empty, not an empty text",
            "4:19: `agents.a.tools` must be a list of texts as in [\"one\", \"two\"], not this whole number",
            "5:10: `agents.a.window` must be a whole number, 1 or more, not this whole number",
            "6:19: `agents.a.while_suspended` must be one of \"reject\", \"queue\", \"supersede\"",
            "7:10: `agents.a.hidden` must be true or false, not this whole number",
            "8:17: `agents.a.on_disconnect` must be one of \"continue\", \"cancel\"",
            "9:20: `agents.a.budget.steps` must be a whole number, 1 or more, not this whole number",
            "9:36: `agents.a.budget.turn_time` must be a length of time as in \"30s\" (ms, s, m, h, d), not this whole number",
            "9:72: `agents.a.budget.tokens` must be a whole number, 1 or more, not this number",
        ],
    );
    check_agents(
        "[agents.a]\ninstructions = \"x\"\nicon = \"much more than a few letters\"\ncolor = \"blue\"\n",
        &[
            "4:8: `agents.a.icon` must be an emoji or a few letters, not this text",
            "5:9: `agents.a.color` must be a colour as in \"#3366cc\", not this text",
        ],
    );
    check_agents(
        "[agents.a]\ninstructions = \"x\"\nprompt_policy = \"comand\"\n",
        &[
            "4:17: `agents.a.prompt_policy` must be one of \"conversation\", \"command\"",
            "hint: did you mean `command`?",
        ],
    );
    let sampling = |text: &str, expect: &[&str]| {
        let model = "{ wire = \"openai\", name = \"x\", base_url = \"http://h\", sampling = ";
        check(&format!("{AGENT}models.m = {model}{text} }}\n"), expect);
    };
    sampling("{ temperature = 0, max_tokens = 5, stop = [\"x\"], extras = { a = [1, { b = true }] } }", &[]);
    sampling(
        "{ temperature = inf }",
        &["2:93: `models.m.sampling.temperature` must be a number, not this number"],
    );
    sampling(
        "{ max_tokens = 0 }",
        &["2:92: `models.m.sampling.max_tokens` must be a whole number, 1 or more, not this whole number"],
    );
    sampling(
        "{ extras = { a = 1979-05-27 } }",
        &["2:88: `models.m.sampling.extras` must be a table of plain values, not a table"],
    );
    sampling("3", &["2:77: `models.m.sampling` must be a table, not this whole number"]);
}

#[test]
fn tables_and_names_are_what_they_must_be() {
    check(
        "models = 3\nagents = []\n",
        &[
            "1:1: there is no agent",
            "hint: write `[agents.NAME]` with its `instructions`; `singletree init` shows how",
            "1:10: `models` must be a table, not this whole number",
            "2:10: `agents` must be a table, not a list",
        ],
    );
    check_agents(
        "[agents.\"a b\"]\n[agents.x]\ninstructions = \"x\"\n[agents]\ny = 1\n",
        &[
            "2:9: a name in `agents` is made of letters, digits, `_` and `-`, 64 at most",
            "6:5: `agents.y` must be a table, not this whole number",
        ],
    );
}

#[test]
fn a_secret_by_value_is_a_mistake_and_never_repeated() {
    let hint = "hint: write { env = \"NAME\" } or { file = \"PATH\" }; what stood here is known to whoever read the file";
    let model = |key: &str, expect: &[&str]| {
        check(&format!("{AGENT}[models.m]\nwire = \"openai\"\nname = \"x\"\nkey = {key}\n"), expect);
    };
    model("\"canary-4711\"", &["5:7: `models.m.key` holds a secret itself", hint]);
    model(
        "4711",
        &["5:7: `models.m.key` must be { env = \"NAME\" } or { file = \"PATH\" }, not this whole number"],
    );
    model(
        "{}",
        &[
            "5:7: `models.m.key` names neither a variable nor a file",
            "hint: write { env = \"NAME\" } or { file = \"PATH\" }",
        ],
    );
    model("{ env = \"KEY\", file = \"k\" }", &["5:7: `models.m.key` names both a variable and a file"]);
    model(
        "{ env = \"sk-canary-4711\" }",
        &[
            "5:15: `models.m.key.env` is no name of an environment variable",
            "hint: write the name of the variable, as in { env = \"OPENAI_API_KEY\" }, not what it holds",
        ],
    );
    model(
        "{ value = \"canary-4711\" }",
        &[
            "5:7: `models.m.key` names neither a variable nor a file",
            "hint: write { env = \"NAME\" } or { file = \"PATH\" }",
            "5:9: `models.m.key` has no key `value`",
            "hint: there is `env`, `file`",
        ],
    );
    check_agents(
        &format!("{AGENT}[mcp.s]\ncommand = \"x\"\nenv = {{ MODE = \"ro\", API_TOKEN = \"canary-4711\" }}\n"),
        &["5:34: `mcp.s.env.API_TOKEN` holds a secret itself", hint],
    );
    check_agents(
        &format!(
            "{AGENT}[mcp.s]\nurl = \"https://h/mcp\"\nheaders = {{ Authorization = \"Bearer canary-4711\" }}\n"
        ),
        &["5:29: `mcp.s.headers.Authorization` holds a secret itself", hint],
    );
}
