//! Mistakes between the parts of a file: names, approvals, durability.

use crate::table::{MODEL, check, check_agents};

#[test]
fn a_name_that_stands_for_nothing_is_told_with_what_was_meant() {
    check_agents(
        "default_agent = \"suport\"\n[agents.support]\nmodel = \"n\"\ninstructions = \"x\"\n\
         tools = [\"clok\", \"files\", \"notes_ad\"]\nhand_offs = [\"biling\", \"support\"]\n[agents.billing]\ninstructions = \"x\"\n",
        &[
            "2:17: `default_agent` names `suport`, which is not there",
            "hint: did you mean `support`?",
            "4:9: `agents.support.model` names `n`, which is not there",
            "hint: there is `m`",
            "6:10: `agents.support.tools` names `clok`, which is not there",
            "hint: did you mean `clock`?",
            "6:18: `agents.support.tools` names `files`, which is not there",
            "hint: there is `clock`, `calculator`, `notes`, `outbox`, `http_get`",
            "6:27: `agents.support.tools` names `notes_ad`, which is not there",
            "hint: did you mean `notes_add`?",
            "7:14: `agents.support.hand_offs` names `biling`, which is not there",
            "hint: did you mean `billing`?",
            "7:24: `agents.support.hand_offs` names the agent itself",
        ],
    );
    let two = MODEL.replace("models.m", "models.n");
    check(
        &format!("{MODEL}{two}agents.a = {{ instructions = \"x\" }}\n"),
        &["3:8: `agents.a.model` is missing, and there are several models", "hint: there is `m`, `n`"],
    );
}

#[test]
fn hand_offs_may_go_in_circles() {
    check_agents(
        "agents.a = { instructions = \"x\", hand_offs = [\"b\"] }\nagents.b = { instructions = \"x\", hand_offs = [\"a\"] }\n",
        &[],
    );
}

#[test]
fn instructions_are_said_once() {
    check_agents(
        "[agents.a]\n[agents.b]\ninstructions = \"x\"\nprompt = \"y\"\n",
        &[
            "2:9: `agents.a.instructions` is missing",
            "hint: say what the agent is for: `instructions = \"…\"` or `prompt = \"NAME\"`",
            "5:10: `agents.b` has both instructions and a prompt",
            "hint: keep one: a prompt is instructions that stand in a file of their own",
            "5:10: the prompt `y` cannot be used: nowhere/prompts cannot be read: No such file or directory (os error 2)",
        ],
    );
}

#[test]
fn a_tool_stands_in_a_list_once() {
    check_agents(
        "agents.a = { instructions = \"x\", tools = [\"notes\", \"clock\", \"notes_add\", \"clock\"] }\n",
        &[
            "2:61: `agents.a.tools` has `notes_add` already, by `notes`",
            "2:74: `agents.a.tools` names `clock` twice",
        ],
    );
}

#[test]
fn what_cannot_be_undone_is_asked_about_or_trusted_by_name() {
    let approval = |approval: &str, expect: &[&str]| {
        check_agents(
            &format!(
                "[agents.a]\ninstructions = \"x\"\ntools = [\"outbox\", \"notes\"]\napproval = {approval}\n"
            ),
            expect,
        );
    };
    for sound in [
        "{}",
        "{ ask = [\"destructive\"] }",
        "{ ask = [\"send_message\"] }",
        "{ ask = [\"outbox\", \"local\"] }",
        "{ ask = [], trust = [\"outbox\"] }",
        "{ trust = [\"send_message\", \"notes\"], expires = \"2h\" }",
    ] {
        approval(sound, &[]);
    }
    for careless in ["{ ask = [] }", "{ ask = [\"safe_write\", \"notes_add\"] }"] {
        approval(
            careless,
            &[
                "4:10: `agents.a` may run `send_message`, which cannot be undone, and nobody is asked",
                "hint: put \"destructive\" into `approval.ask`, or \"send_message\" into `approval.trust`",
            ],
        );
    }
    approval(
        "{ ask = [\"send_mesage\", \"destructiv\", \"clock\"], trust = [\"local\"] }",
        &[
            "4:10: `agents.a` may run `send_message`, which cannot be undone, and nobody is asked",
            "hint: put \"destructive\" into `approval.ask`, or \"send_message\" into `approval.trust`",
            "5:21: `agents.a.approval.ask` names `send_mesage`, which is no tool here",
            "hint: did you mean `send_message`?",
            "5:36: `agents.a.approval.ask` names `destructiv`, which is no tool here",
            "hint: did you mean `destructive`?",
            "5:50: `agents.a.approval.ask` names `clock`, which is no tool here",
            "hint: there is `read`, `safe_write`, `destructive`, `local`, `notes`, `notes_add`, `notes_list`, \
             `notes_search`, `outbox`, `send_message`",
            "5:69: `agents.a.approval.trust` names `local`, which is no tool here",
            "hint: there is `notes`, `notes_add`, `notes_list`, `notes_search`, `outbox`, `send_message`",
        ],
    );
    approval(
        "{ ask = [\"outbox\"], trust = [\"outbox\"] }",
        &["5:41: `agents.a.approval` both asks about `outbox` and trusts it"],
    );
}

#[test]
fn the_approval_of_the_file_holds_for_agents_without_one() {
    check_agents(
        "approval.ask = []\nagents.a = { instructions = \"x\", tools = [\"outbox\"] }\n\
         agents.b = { instructions = \"x\", tools = [\"outbox\"], approval = {} }\n",
        &[
            "3:43: `agents.a` may run `send_message`, which cannot be undone, and nobody is asked",
            "hint: put \"destructive\" into `approval.ask`, or \"send_message\" into `approval.trust`",
        ],
    );
}

// spec: D26
#[test]
fn tools_that_change_something_need_level_step() {
    let agent = |tools: &str, expect: &[&str]| {
        check_agents(
            &format!("[agents.a]\ninstructions = \"x\"\ntools = {tools}\ndurability = \"turn\"\n"),
            expect,
        );
    };
    agent("[\"clock\", \"notes_list\"]", &[]);
    agent(
        "[\"notes\"]",
        &[
            "5:14: `agents.a` has tools that change something, which need durability \"step\"",
            "hint: leave `durability` out: it follows from the tools",
        ],
    );
}

#[test]
fn a_server_is_started_or_addressed_and_its_unknown_tools_count_as_destructive() {
    let server = |server: &str, agent: &str, expect: &[&str]| {
        check_agents(&format!("[mcp.files]\n{server}\n[agents.a]\ninstructions = \"x\"\n{agent}\n"), expect);
    };
    server(
        "",
        "",
        &[
            "2:6: `mcp.files.command` is missing",
            "hint: the program to start, or the `url` of a server that runs",
        ],
    );
    server(
        "command = \"x\"\nurl = \"http://h\"",
        "",
        &["4:7: `mcp.files.url` beside `command`: a server is started or addressed, not both"],
    );
    server(
        "url = \"h\"\nargs = [\"x\"]",
        "",
        &[
            "3:7: `mcp.files.url` must begin with http:// or https://",
            "4:1: `mcp.files.args` says nothing without `command`",
        ],
    );
    let unasked = "7:10: `agents.a` may run `files`, which cannot be undone, and nobody is asked";
    let hint = "hint: put \"destructive\" into `approval.ask`, or \"files\" into `approval.trust`";
    let all = "tools = [\"files\"]\napproval.ask = []";
    server("command = \"x\"\neffects = { read = \"read\" }", all, &[unasked, hint]);
    server("command = \"x\"\neffects = { \"*\" = \"read\" }", all, &[]);
    server(
        "command = \"x\"\ntools = [\"read\"]\neffects = { read = \"read\" }",
        "tools = [\"files.read\"]\napproval.ask = []",
        &[],
    );
    server(
        "command = \"x\"\ntools = [\"read\"]\neffects = { red = \"raed\", raed = \"read\" }",
        "tools = [\"files.write\"]",
        &[
            "5:19: `mcp.files.effects.red` must be the word of an effect",
            "hint: did you mean `read`?",
            "5:27: `mcp.files.effects` names `raed`, which is not among its tools",
            "hint: did you mean `read`?",
            "8:10: `agents.a.tools` names `files.write`, which is not there",
            "hint: there is `read`",
        ],
    );
    check_agents(
        "mcp.notes.command = \"x\"\nagents.a = { instructions = \"x\" }\n",
        &["2:5: no server can be called `notes`: that is another tool's name"],
    );
}

#[test]
fn names_are_those_that_models_take() {
    check_agents(
        "mcp.a__b.command = \"x\"\nagents.a = { instructions = \"x\" }\n",
        &[
            "2:5: no server can be called `a__b`: its tools would have no name that models take",
            "hint: use at most 32 letters, and no two `_` in a row",
        ],
    );
    let hint =
        "hint: only names of letters, digits, `_` and `-`, not too long; list the whole server instead";
    check_agents(
        "mcp.s.command = \"x\"\nagents.a = { instructions = \"x\", tools = [\"s.a b\", \"s.ok\"], approval = { ask = [\"destructive\", \"s.a b\"] } }\n",
        &[
            "3:43: the tool `a b` of `s` cannot be named by itself",
            hint,
            "3:96: the tool `a b` of `s` cannot be named by itself",
            hint,
        ],
    );
    check_agents(
        "agents.back-office = { instructions = \"x\" }\nagents.Back_Office = { instructions = \"x\" }\n",
        &["3:8: `Back_Office` is too much like `back-office` for agents"],
    );
}

// Mistakes that only the crates can detect that use the values.
#[test]
fn an_address_or_a_variable_that_cannot_be_is_told_with_the_file() {
    check(
        "models.m = { wire = \"openai\", name = \"x\", base_url = \"http://a%zz\" }\nagents.a = { instructions = \"x\" }\n",
        &["1:54: `models.m.base_url` is no address"],
    );
    check_agents(
        "agents.a = { instructions = \"x\", tools = [\"s\"] }\nmcp.s = { command = \"x\", env = { \"a=b\" = \"c\" } }\n",
        &[
            "3:5: the MCP server `s` cannot be used: the settings of the MCP server \"s\" are malformed: \"a=b\" cannot be the \
           name of a variable",
        ],
    );
}
