//! The example of the protocol's own text (§17): a card, and an action that is dangerous.

use serde_json::Value;
use singletree_client::{DirectiveNote, ResponseStep, ShellProfile, ShellSession};
use singletree_protocol::openharness::{Capability, RequestMessage, ResponseMessage, RiskTier};

use crate::spec;

/// The messages of the section with the example: a request and a response.
fn messages() -> Option<[String; 2]> {
    let text = spec::text("docs/PROTOCOL.md")?;
    let section = text.split("\n## 17.").nth(1).unwrap();
    let mut blocks =
        section.split("```json\n").skip(1).map(|it| it.split("\n```").next().unwrap().to_owned());
    Some([blocks.next().unwrap(), blocks.next().unwrap()])
}

#[test]
fn both_sides_read_the_example() {
    let Some([request, response]) = messages() else { return };
    let read = RequestMessage::from_json_bytes(request.as_bytes()).unwrap();
    let whole: Value = serde_json::from_str(&request).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), whole);
    let read = ResponseMessage::from_json_bytes(response.as_bytes()).unwrap();
    let whole: Value = serde_json::from_str(&response).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), whole);
}

#[test]
fn a_shell_that_knows_neither_does_neither() {
    let Some([_, response]) = messages() else { return };
    let answer = ResponseMessage::from_json_bytes(response.as_bytes()).unwrap();
    let plan = ShellSession::new(ShellProfile::for_text_shell("test", "1"), None).plan_response(&answer);
    assert_eq!(plan.steps, []);
    let unknown = |it: &str| DirectiveNote::UnknownActionType(it.to_owned());
    assert_eq!(plan.notes, [unknown("render_ui"), unknown("simulate_action")]);
}

#[test]
fn a_shell_that_knows_both_draws_the_one_and_asks_before_the_other() {
    let Some([_, response]) = messages() else { return };
    let answer = ResponseMessage::from_json_bytes(response.as_bytes()).unwrap();
    let profile = ShellProfile::for_text_shell("test", "1").with_capability(Capability::RichCards);
    let profile = profile.with_action("render_ui").with_action("simulate_action");
    let plan = ShellSession::new(profile, None).plan_response(&answer);
    let performed: Vec<_> = plan
        .steps
        .iter()
        .map(|it| match it {
            ResponseStep::Perform(it) => {
                (it.directive.action_type.as_str(), it.confirm.as_ref().map(|it| it.risk), it.deadline)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    let five = Some(std::time::Duration::from_secs(5));
    let expected = [("render_ui", None, five), ("simulate_action", Some(RiskTier::Dangerous), None)];
    assert_eq!(performed, expected);
}
