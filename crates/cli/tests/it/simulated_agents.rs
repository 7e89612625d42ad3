//! `singletree sim --config`: the agents of a file under simulated crashes.

use serde_json::Value;

use crate::desk::Desk;

/// A server of a shop. It fails a call, so that a tool that is called for real is noticed.
const SHOP: &str = r#"while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  order='{"type":"object","properties":{"order":{"type":"string"}},"required":["order"]}'
  case "$line" in
    *'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"shop","version":"1"}}' ;;
    *'"tools/list"'*) result='{"tools":[
      {"name":"price","description":"","inputSchema":'$order'},
      {"name":"mark","description":"","inputSchema":'$order',"annotations":{"idempotentHint":true}},
      {"name":"refund","description":"","inputSchema":'$order',"annotations":{"idempotentHint":REFUND}}]}' ;;
    *'"tools/call"'*) echo called >>called.txt; result='{"content":[],"isError":true}' ;;
    *) result='{}' ;;
  esac
  if [ -n "$id" ]; then printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$(printf %s "$result" | tr -d '\n')"; fi
done
"#;

const AGENTS: &str = r#"
[models.main]
wire = "openai"
name = "gpt-5-mini"
key = { env = "OPENAI_API_KEY" }

[mcp.shop]
command = "sh"
args = ["shop.sh"]
trust_hints = true
effects = { price = "read", mark = "safe_write", refund = "destructive" }

[agents.clerk]
instructions = "You help the customers of a lamp shop."
tools = ["shop", "clock"]
approval = { ask = ["destructive"], expires = "24h" }
hand_offs = ["clerk2"]

[agents.clerk2]
instructions = "You help the clerk."
tools = ["TOOLS"]
"#;

/// Simulates the clerk of a shop whose refunds are idempotent or are not, and another with these tools.
fn simulate_clerk(is_refund_idempotent: bool, tools: &str, seeds: &str) -> (Desk, i32, Value) {
    let desk = Desk::new();
    desk.write("shop.sh", &SHOP.replace("REFUND", &is_refund_idempotent.to_string()));
    desk.write("singletree.toml", &AGENTS.replace("TOOLS", tools));
    let ran = desk.run(&["sim", "--config", "singletree.toml", "--seeds", seeds, "--json"]);
    let printed = serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    (desk, ran.code, printed)
}

fn tool<'a>(printed: &'a Value, name: &str) -> &'a Value {
    let tools = printed["tools"].as_array().unwrap();
    tools.iter().find(|tool| tool["tool"] == name).unwrap_or_else(|| panic!("{name}: {printed:#}"))
}

#[test]
fn a_tool_without_idempotency_is_reported_with_the_seed_and_the_history() {
    let (desk, code, printed) = simulate_clerk(false, "calculator", "25");
    assert_eq!((code, printed["failures"].as_array().map(Vec::len)), (1, Some(0)), "{printed:#}");
    for harmless in ["shop__price", "shop__mark", "clock", "calculator"] {
        let tool = tool(&printed, harmless);
        assert!(tool["calls"].as_u64() > Some(0), "{tool:#}");
        assert_eq!((&tool["unknown"], &tool["repeated"]), (&Value::Null, &Value::Null), "{tool:#}");
    }
    let refund = tool(&printed, "shop__refund");
    assert_eq!((&refund["effect"], &refund["may_stay_unknown"]), (&"destructive".into(), &true.into()));
    let unknown = &refund["unknown"];
    let history = unknown["history"].as_array().unwrap_or_else(|| panic!("{refund:#}"));
    let told = |part: &str| history.iter().any(|line| line.as_str().is_some_and(|line| line.contains(part)));
    // Its process died, or its answer was lost.
    let is_doubtful = told("\"status\":\"unknown\"") || told("whether it took effect is unknown");
    assert!(told("effect of shop__refund") && told("calls shop__refund") && is_doubtful, "{unknown:#}");
    assert!(!desk.path("called.txt").exists(), "a tool was called");

    // The seed shows it again.
    let seed = unknown["seed"].as_u64().unwrap().to_string();
    let ran = desk.run(&["sim", "--config", "singletree.toml", "--seed", &seed]);
    let title = format!("shop__refund: its effect stayed unknown; seed {seed}, session ");
    assert!(ran.code == 1 && ran.out.contains(&title), "{ran:?}");
}

#[test]
fn an_agent_whose_tools_are_idempotent_passes() {
    let (_, code, printed) = simulate_clerk(true, "calculator", "40");
    let refund = tool(&printed, "shop__refund");
    assert!(refund["calls"].as_u64() > Some(0), "{refund:#}");
    assert_eq!(
        (&refund["may_stay_unknown"], &refund["unknown"]),
        (&false.into(), &Value::Null),
        "{refund:#}"
    );
    assert_eq!(code, 0, "{printed:#}");
}

#[test]
fn a_server_that_cannot_be_reached_is_an_error() {
    let desk = Desk::new();
    desk.write("singletree.toml", &AGENTS.replace("TOOLS", "notes").replace("\"sh\"", "\"sh-is-not-there\""));
    let ran = desk.run(&["sim", "--config", "singletree.toml"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("tool_unavailable") && ran.err.contains("clerk"), "{ran:?}");
}
