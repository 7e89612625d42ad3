//! Tools that come and go.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use singletree_llm::BoxFuture;
use singletree_tools::{
    Effect, Error, LiveToolbox, Offer, Output, Tool, ToolLimits, Toolbox, Toolset, TypedTool,
};

use crate::{call, key};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

fn tool(name: &str) -> Arc<dyn Tool> {
    let said = name.to_owned();
    let say = move |_: Nothing, _| {
        let said = said.clone();
        async move { Ok(Output::text(said)) }
    };
    Arc::new(TypedTool::new(name, "Says its name.", Effect::Read, say).expect("valid"))
}

fn fixed(names: &[&str]) -> Toolbox {
    Toolbox::new(names.iter().map(|it| tool(it)), ToolLimits::standard()).expect("no duplicate")
}

type Tools = Arc<[Arc<dyn Tool>]>;

/// A set whose tools are told to it; none means that it is out of reach.
#[derive(Debug)]
struct Set {
    name: &'static str,
    tools: Mutex<Option<Tools>>,
}

impl Set {
    fn new(name: &'static str, tools: Option<&[&str]>) -> Arc<Self> {
        let set = Arc::new(Self { name, tools: Mutex::default() });
        set.has(tools);
        set
    }

    fn has(&self, tools: Option<&[&str]>) {
        *self.tools.lock().expect("whole") = tools.map(|it| it.iter().map(|it| tool(it)).collect());
    }
}

impl Toolset for Set {
    fn name(&self) -> &str {
        self.name
    }

    fn offer_tools(&self) -> BoxFuture<'_, Offer> {
        let tools = self.tools.lock().expect("whole").clone();
        let gone = || Error::Unavailable { problem: "out of reach".to_owned(), source: None };
        async move { tools.ok_or_else(gone) }.boxed()
    }
}

fn names(toolbox: &Toolbox) -> Vec<String> {
    toolbox.definitions().iter().map(|it| it.name().to_owned()).collect()
}

fn missing(toolbox: &Toolbox) -> Vec<(String, String)> {
    toolbox.unavailable_toolsets().iter().map(|it| (it.set.clone(), it.error.to_string())).collect()
}

#[tokio::test]
async fn the_tools_are_those_of_the_moment_and_one_set_takes_no_other_with_it() {
    let (one, two) = (Set::new("one", Some(&["b", "c"])), Set::new("two", None));
    let live = LiveToolbox::new(fixed(&["a"]), [one.clone() as Arc<dyn Toolset>, two.clone()]);
    let before = live.current_toolbox().await;
    assert_eq!(names(&before), ["a", "b", "c"]);
    assert_eq!(missing(&before), [("two".to_owned(), "out of reach".to_owned())]);

    two.has(Some(&["d", "a", "c"]));
    one.has(Some(&["c"]));
    let after = live.current_toolbox().await;
    assert_eq!(names(&after), ["a", "c", "d"]);
    let twice = |name: &str| ("two".to_owned(), format!("there are two tools named {name:?}"));
    assert_eq!(missing(&after), [twice("a"), twice("c")]);
    // A toolbox that was given out does not change for its holder.
    assert_eq!(before.call(&call("b", json!({})), &key(0)).await, Output::text("b"));
    assert_eq!(after.call(&call("b", json!({})), &key(0)).await.category, Some("tool_unknown"));
}

#[tokio::test]
async fn as_long_as_nothing_changes_nothing_is_made() {
    let set = Set::new("one", Some(&["b"]));
    let live = LiveToolbox::new(fixed(&["a"]), [set.clone() as Arc<dyn Toolset>]);
    let same = |one: &Toolbox, two: &Toolbox| Arc::ptr_eq(&one.definitions(), &two.definitions());
    let first = live.current_toolbox().await;
    assert!(same(&first, &live.clone().current_toolbox().await));
    set.has(None);
    assert!(!same(&first, &live.current_toolbox().await));
    set.has(Some(&["b"]));
    assert!(!same(&first, &live.current_toolbox().await));
}

// The effects of a set's tools are unknown before the set is asked: it counts as dangerous until then.
#[test]
fn sets_count_as_dangerous_where_effects_are_asked_before_the_start() {
    let live = LiveToolbox::from(fixed(&["a"]));
    assert_eq!(live.possible_effects(), [Effect::Read]);
    let live = LiveToolbox::new(fixed(&["a"]), [Set::new("one", None) as Arc<dyn Toolset>]);
    assert_eq!(live.possible_effects(), [Effect::Read, Effect::Destructive]);
}

// INV-12
#[tokio::test]
async fn so_many_run_at_once_and_results_come_in_the_order_of_the_calls() {
    let toolbox = fixed(&[]).with_concurrency(3);
    let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = |index: usize| {
        let (running, most) = (&running, &most);
        async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            // The later it was asked, the sooner it is done.
            for _ in index..10 {
                tokio::task::yield_now().await;
            }
            running.fetch_sub(1, Ordering::SeqCst);
            index
        }
    };
    let results = toolbox.run_in_order((0..10).map(work)).await;
    assert_eq!(results, (0..10).collect::<Vec<_>>());
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn a_tool_with_limits_of_its_own_has_those() {
    #[derive(Debug)]
    struct Patient(TypedTool);

    impl Tool for Patient {
        fn definition(&self) -> &singletree_llm::ToolDefinition {
            self.0.definition()
        }

        fn effect(&self) -> Effect {
            self.0.effect()
        }

        fn on_unknown_outcome(&self) -> singletree_tools::Recovery {
            self.0.on_unknown_outcome()
        }

        fn limits(&self) -> Option<ToolLimits> {
            Some(ToolLimits { time: std::time::Duration::from_secs(100), output_bytes: 2 })
        }

        fn call<'a>(
            &'a self,
            invocation: singletree_tools::Invocation<'a>,
        ) -> BoxFuture<'a, singletree_tools::Result<Output>> {
            self.0.call(invocation)
        }
    }

    let slow = async |_: Nothing, _| {
        tokio::time::sleep(std::time::Duration::from_secs(99)).await;
        Ok(Output::text("slow"))
    };
    let slow = Patient(TypedTool::new("slow", "Takes long.", Effect::Read, slow).expect("valid"));
    let toolbox =
        Toolbox::new([Arc::new(slow) as Arc<dyn Tool>], ToolLimits::standard()).expect("no duplicate");
    assert_eq!(toolbox.call(&call("slow", json!({})), &key(0)).await, Output::text("sl"));
}
