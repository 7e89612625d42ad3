//! Failing instances (pipeline-utilities §9.5).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use singletree_engine::{
    Ctx, END, ErrorPolicy, FanOut, FieldShape, Graph, NodeError, Reducer, Retry, Snapshot, classify_error,
};

use crate::fan_out::{around, each, ints, number};
use crate::rig::{completed, described, fail, field, int, observed, over, update};

/// Sets a mark when it is dropped.
struct Marks(Arc<Mutex<Vec<i64>>>, i64);

impl Drop for Marks {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(self.1);
    }
}

/// An inner graph that fails for odd items, the sooner the larger they are, and notes dropped instances.
fn odd(dropped: &Arc<Mutex<Vec<i64>>>) -> Graph<Snapshot> {
    let dropped = dropped.clone();
    let work = move |cx: Ctx<Snapshot>| {
        let dropped = dropped.clone();
        async move {
            let n = number(&cx, "n");
            let _marks = Marks(dropped, n);
            tokio::time::sleep(Duration::from_secs(100 - n.unsigned_abs())).await;
            if n % 2 == 0 {
                return Ok(update(json!({"out": n})));
            }
            Err(NodeError::new(format!("{n} is odd")).with_category("odd"))
        }
    };
    over([int("n"), int("out")]).node("work", work).edge("work", END).entry("work").compile().unwrap()
}

// spec: pipeline-utilities §9.5: the first failure cancels the siblings, and is the fan-out's, wrapped once.
#[tokio::test(start_paused = true)]
async fn the_first_failure_cancels_the_others() {
    let dropped = Arc::default();
    let graph = around(each(&odd(&dropped)).concurrency(3)).compile().unwrap();
    let given = json!({"items": [2, 1, 5, 9, 7], "results": [0]});
    let begun = tokio::time::Instant::now();
    let (outcome, seen) = observed(&graph, given).await;
    let error = outcome.unwrap_err();
    let before = json!({"items": [2, 1, 5, 9, 7], "results": [0], "count": 0, "base": 0, "more": []});
    assert_eq!(described(&error), ("node_exception", Some("each".into()), Some(before)));
    // 5 fails first; the fourth and fifth instance have not begun. Cancelled ones have cleaned up, in order.
    assert_eq!(
        singletree_engine::format_error_chain(&error),
        "node 'each' failed: node 'work' failed: 5 is odd"
    );
    assert_eq!(begun.elapsed(), Duration::from_secs(95));
    assert_eq!(*dropped.lock().unwrap(), [5, 2, 1]);
    let links: Vec<_> =
        classify_error(&error).chain.into_iter().map(|it| (it.carrier, it.category)).collect();
    let carrier = (true, Some("node_exception".to_owned()));
    assert_eq!(links, [carrier.clone(), carrier, (false, Some("odd".into()))]);
    let told = [
        "0.0 started each",
        "1.0 started each[0]/work",
        "2.0 started each[1]/work",
        "3.0 started each[2]/work",
        "3.0 completed each[2]/work node_exception",
        "0.0 completed each node_exception",
    ];
    assert_eq!(seen.told(), told);
}

// spec: pipeline-utilities §6.1: a retry around the fan-out sees two wrappers, and does not look through both.
#[tokio::test]
async fn a_retry_around_the_fan_out_does_not_retry_what_failed_inside_it() {
    let down = |_: Ctx<Snapshot>| async { Err(NodeError::new("x").with_category("provider_unavailable")) };
    let inner =
        over([int("n"), int("out")]).node("work", down).edge("work", END).entry("work").compile().unwrap();
    let graph = around(each(&inner)).middleware(Retry::new()).compile().unwrap();
    let (outcome, seen) = observed(&graph, json!({"items": [1]})).await;
    assert_eq!((outcome.unwrap_err().derived_category(), seen.told().len()), ("provider_unavailable", 4));
}

// spec: pipeline-utilities §9.5: all run to their end; failed ones have no slot; the records are in order.
#[tokio::test(start_paused = true)]
async fn collected_failures_leave_out_their_slots() {
    let errors = field("errors", FieldShape::Dict(Box::new(FieldShape::Str)).list(), json!([]))
        .reducer(Reducer::Append);
    let build = |fan: FanOut<Snapshot>| {
        let fan = fan.error_policy(ErrorPolicy::Collect).count_field("count").extra_output("more", "n");
        let fields = [ints("items"), ints("results"), int("count"), ints("more"), errors.clone()];
        over(fields).fan_out("each", fan).edge("each", END).entry("each").compile().unwrap()
    };
    let odd = odd(&Arc::default());
    let given = json!({"items": [2, 1, 5, 4]});
    let mut expected =
        json!({"items": [2, 1, 5, 4], "results": [2, 4], "count": 4, "more": [2, 4], "errors": []});
    // Without a field for them, the records are dropped.
    let (outcome, seen) = observed(&build(each(&odd)), given.clone()).await;
    assert_eq!(completed(outcome), expected);
    assert_eq!(seen.told().last().unwrap(), "0.0 completed each ok");

    let record = |index: &str, n: u64| json!({"fan_out_index": index, "category": "node_exception", "cause": "odd", "message": format!("{n} is odd")});
    expected["errors"] = json!([record("1", 1), record("2", 5)]);
    let (outcome, _) = observed(&build(each(&odd).errors_field("errors")), given.clone()).await;
    assert_eq!(completed(outcome), expected);

    // Records by the application.
    let own = each(&odd).errors_field("errors").error_record(|index, _| json!({"at": format!("#{index}")}));
    let (outcome, _) = observed(&build(own), given).await;
    assert_eq!(completed(outcome)["errors"], json!([{"at": "#1"}, {"at": "#2"}]));

    // spec: pipeline-utilities §9.5: also when all fail.
    let (outcome, _) = observed(&build(each(&odd)), json!({"items": [1, 3]})).await;
    assert_eq!(completed(outcome)["results"], json!([]));
}

// A node, a record function or a count that panics is a failure of its instance or its fan-out, no more.
#[tokio::test]
async fn panics_inside_are_failures() {
    let panics = |cx: Ctx<Snapshot>| async move {
        assert_ne!(number(&cx, "n"), 2, "two");
        Ok(update(json!({"out": 1})))
    };
    let inner =
        over([int("n"), int("out")]).node("work", panics).edge("work", END).entry("work").compile().unwrap();
    let fan = || each(&inner).error_policy(ErrorPolicy::Collect);
    let graph = around(fan()).compile().unwrap();
    let (outcome, _) = observed(&graph, json!({"items": [1, 2, 3]})).await;
    assert_eq!(completed(outcome)["results"], json!([1, 1]));
    let graph = around(fan().error_record(|_, _| panic!("no record"))).compile().unwrap();
    let error = fail(&graph, json!({"items": [1, 2, 3]})).await;
    assert_eq!(singletree_engine::format_error_chain(&error), "node 'each' failed: panicked: no record");
}
