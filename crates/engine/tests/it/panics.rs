//! Whatever of the application's panics: it becomes its category, its node's events are whole, and the graph runs
//! again.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use singletree_durable::{BoxError, BoxFuture};
use singletree_engine::{
    Branch, Branches, Ctx, CustomReducer, END, ErrorPolicy, FailureIsolation, FanOut, FieldContent,
    FieldShape, Graph, KeyExtractor, Middleware, Next, NodeError, NodeResult, Projection, Reducer,
    ReducerFault, Retry, RetryBackoff, Snapshot, StateUpdate, Timing, around, format_error_chain,
};

use crate::fan_out::ints;
use crate::rig::{Builder, field, int, log, observed, over, update};

/// A switch that makes functions panic, until it is calmed.
#[derive(Clone, Default)]
pub(crate) struct Nerves(Arc<AtomicBool>);

impl Nerves {
    pub(crate) fn test(&self) {
        assert!(self.0.load(Ordering::Relaxed), "bang");
    }

    pub(crate) fn calm(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    build: fn(Nerves) -> Builder,
    /// The category and the node that it is of.
    fails: (&'static str, &'static str),
}

/// One node "a" that counts, fails as a provider does when the state says so, and adds an item.
pub(crate) fn one() -> Builder {
    let body = |cx: Ctx<Snapshot>| {
        let fails = cx.snapshot().get("fails").unwrap().to_json().unwrap() == true;
        let failed = || NodeError::new("down").with_category("provider_unavailable");
        ready(if fails { Err(failed()) } else { Ok(update(json!({"n": 1, "log": ["a"]}))) })
    };
    over([int("n"), field("fails", FieldShape::Bool, json!(false)), log("log"), ints("items"), log("errors")])
        .node("a", body)
        .edge("a", END)
        .entry("a")
}

/// As `one`, where the first call of the body fails: middleware that handles failures is reached.
fn failing() -> Builder {
    let first = AtomicBool::new(true);
    let body = move |_: Ctx<Snapshot>| {
        let failed = || NodeError::new("down").with_category("provider_unavailable");
        ready(if first.swap(false, Ordering::Relaxed) { Err(failed()) } else { Ok(StateUpdate::new()) })
    };
    over([int("n"), log("log")]).node("a", body).edge("a", END).entry("a")
}

fn around_a(middleware: impl Middleware + 'static) -> Builder {
    one().node_middleware("a", middleware)
}

fn retried(retry: impl FnOnce(Retry) -> Retry) -> Builder {
    failing()
        .node_middleware("a", retry(Retry::new().backoff(RetryBackoff::Constant(std::time::Duration::ZERO))))
}

/// An inner graph whose one node "work" is this one.
fn inner(nerves: Nerves) -> Graph<Snapshot> {
    let work = move |_: Ctx<Snapshot>| {
        nerves.test();
        ready(NodeResult::<Snapshot>::Ok(update(json!({"out": 7}))))
    };
    over([int("n"), int("out")]).node("work", work).edge("work", END).entry("work").compile().unwrap()
}

fn fanning(change: impl FnOnce(FanOut<Snapshot>) -> FanOut<Snapshot>, nerves: Nerves) -> Builder {
    let fan = FanOut::over(&inner(nerves)).collect("out", "items");
    over([ints("items"), log("errors"), int("n")]).fan_out("a", change(fan)).edge("a", END).entry("a")
}

fn calm() -> Nerves {
    let nerves = Nerves::default();
    nerves.calm();
    nerves
}

fn branching(branches: Branches<Snapshot>) -> Builder {
    over([int("n"), log("errors")]).branches("a", branches).edge("a", END).entry("a")
}

fn good() -> Branch<Snapshot> {
    Branch::new().call(|_| ready(Ok(update(json!({"n": 1})))))
}

struct Custom(Nerves);

impl CustomReducer for Custom {
    fn name(&self) -> &'static str {
        "custom"
    }
    fn reduce_update(&self, _: &FieldContent, update: FieldContent) -> Result<FieldContent, ReducerFault> {
        self.0.test();
        Ok(update)
    }
    fn is_round_trip_idempotent(&self) -> Option<bool> {
        None
    }
}

/// A node that sets a field which is merged and checked as given.
fn merging(reducer: Option<Reducer>, check: Option<singletree_engine::ValueCheck>) -> Builder {
    let mut f = field("f", FieldShape::Any.list(), json!([]));
    f = reducer.into_iter().fold(f, singletree_engine::FieldSpec::reducer);
    f = check.into_iter().fold(f, singletree_engine::FieldSpec::with_value_check);
    over([f]).node("a", |_| ready(Ok(update(json!({"f": [1]}))))).edge("a", END).entry("a")
}

const NODES: &[Case] = &[
    Case {
        name: "a node, before its future",
        build: |nerves| {
            let body = move |_: Ctx<Snapshot>| {
                nerves.test();
                ready(NodeResult::<Snapshot>::Ok(StateUpdate::new()))
            };
            over([]).node("a", body).edge("a", END).entry("a")
        },
        fails: ("node_exception", "a"),
    },
    Case {
        name: "a node, after an await",
        build: |nerves| {
            let body = move |_: Ctx<Snapshot>| {
                let nerves = nerves.clone();
                async move {
                    tokio::task::yield_now().await;
                    nerves.test();
                    NodeResult::<Snapshot>::Ok(StateUpdate::new())
                }
            };
            over([]).node("a", body).edge("a", END).entry("a")
        },
        fails: ("node_exception", "a"),
    },
    Case {
        name: "a node of a subgraph",
        build: |nerves| {
            let builder = over([int("out")]).subgraph("a", &inner(nerves), Projection::by_name());
            builder.edge("a", END).entry("a")
        },
        fails: ("node_exception", "work"),
    },
    Case {
        name: "the function of an edge",
        build: |nerves| {
            let choose = move |_: &Snapshot| {
                nerves.test();
                END
            };
            let body = |_| ready(NodeResult::<Snapshot>::Ok(StateUpdate::new()));
            over([]).node("a", body).conditional_edge("a", choose).entry("a")
        },
        fails: ("edge_exception", "a"),
    },
    Case {
        name: "a reducer",
        build: |nerves| merging(Some(Reducer::Custom(Arc::new(Custom(nerves)))), None),
        fails: ("reducer_error", "a"),
    },
    Case {
        name: "the key of a reducer",
        build: |nerves| {
            let key = KeyExtractor::from_function(move |item| {
                nerves.test();
                Ok(item.clone())
            });
            merging(Some(Reducer::MergeByKey(Some(key))), None)
        },
        fails: ("reducer_error", "a"),
    },
    Case {
        name: "the check of a field",
        build: |nerves| {
            let check: singletree_engine::ValueCheck = Arc::new(move |_| {
                nerves.test();
                Ok(())
            });
            merging(None, Some(check))
        },
        fails: ("state_validation_error", "a"),
    },
];

const MIDDLEWARE: &[Case] = &[
    Case {
        name: "a middleware, before next",
        build: |nerves| {
            around_a(around(move |state: Arc<Snapshot>, mut next: Next<'_>| -> BoxFuture<'_, _> {
                let nerves = nerves.clone();
                Box::pin(async move {
                    nerves.test();
                    next.run(&state).await
                })
            }))
        },
        fails: ("node_exception", "a"),
    },
    Case {
        name: "a middleware, after next",
        build: |nerves| {
            around_a(around(move |state: Arc<Snapshot>, mut next: Next<'_>| -> BoxFuture<'_, _> {
                let nerves = nerves.clone();
                Box::pin(async move {
                    let update = next.run(&state).await?;
                    nerves.test();
                    Ok(update)
                })
            }))
        },
        fails: ("node_exception", "a"),
    },
    Case {
        name: "the classifier of a retry",
        build: |nerves| {
            retried(|retry| {
                retry.classifier(move |_, _| {
                    nerves.test();
                    true
                })
            })
        },
        fails: ("node_exception", "a"),
    },
    Case {
        name: "the backoff of a retry",
        build: |nerves| {
            retried(|retry| {
                retry.backoff(RetryBackoff::from_function(move |_| {
                    nerves.test();
                    std::time::Duration::ZERO
                }))
            })
        },
        fails: ("node_exception", "a"),
    },
    Case {
        name: "on_retry",
        build: |nerves| {
            retried(|retry| {
                retry.on_retry(move |_, _| {
                    nerves.test();
                    Box::pin(ready(Ok(())))
                })
            })
        },
        fails: ("node_exception", "a"),
    },
    Case {
        name: "the degraded update of an isolation",
        build: |nerves| {
            failing().node_middleware(
                "a",
                FailureIsolation::from_function("e", move |_| {
                    nerves.test();
                    Ok(StateUpdate::new())
                }),
            )
        },
        fails: ("node_exception", "a"),
    },
    Case {
        name: "the predicate of an isolation",
        build: |nerves| {
            let isolation = FailureIsolation::new("e", StateUpdate::new()).predicate(move |_| {
                nerves.test();
                true
            });
            failing().node_middleware("a", isolation)
        },
        fails: ("node_exception", "a"),
    },
    Case {
        name: "on_caught of an isolation",
        build: |nerves| {
            let isolation = FailureIsolation::new("e", StateUpdate::new()).on_caught(move |_| {
                nerves.test();
                Box::pin(ready(Ok(())))
            });
            failing().node_middleware("a", isolation)
        },
        fails: ("node_exception", "a"),
    },
    Case {
        name: "the callback of a timing",
        build: |nerves| {
            around_a(Timing::for_node("a", move |_| {
                nerves.test();
                ready(Ok(()))
            }))
        },
        fails: ("node_exception", "a"),
    },
];

const CONTAINERS: &[Case] = &[
    Case {
        name: "an instance of a fan-out",
        build: |nerves| fanning(|fan| fan.count(3), nerves),
        fails: ("node_exception", "a"),
    },
    Case {
        name: "the middleware of an instance",
        build: |nerves| {
            fanning(
                |fan| {
                    fan.count(3).instance_middleware(FailureIsolation::from_function("e", move |_| {
                        nerves.test();
                        Ok(update(json!({"out": 1})))
                    }))
                },
                Nerves::default(),
            )
        },
        fails: ("node_exception", "a"),
    },
    Case {
        name: "the count of a fan-out",
        build: |nerves| {
            fanning(
                |fan| {
                    fan.count_by(move |_: &Snapshot| {
                        nerves.test();
                        Ok::<_, BoxError>(2)
                    })
                },
                calm(),
            )
        },
        fails: ("node_exception", "a"),
    },
    Case {
        name: "the concurrency of a fan-out",
        build: |nerves| {
            fanning(
                |fan| {
                    fan.count(2).concurrency_by(move |_: &Snapshot| {
                        nerves.test();
                        Ok::<_, BoxError>(None)
                    })
                },
                calm(),
            )
        },
        fails: ("node_exception", "a"),
    },
    Case {
        name: "the record of a failed instance",
        build: |nerves| {
            fanning(
                |fan| {
                    let fan = fan.count(2).error_policy(ErrorPolicy::Collect).errors_field("errors");
                    fan.error_record(move |_, error| {
                        nerves.test();
                        error.to_string().into()
                    })
                },
                Nerves::default(),
            )
        },
        fails: ("node_exception", "a"),
    },
    Case {
        name: "a branch that is a function",
        build: |nerves| {
            let bad = Branch::new().call(move |_| {
                nerves.test();
                ready(Ok(StateUpdate::new()))
            });
            branching(Branches::new().branch("good", good()).branch("bad", bad))
        },
        fails: ("parallel_branches_branch_failed", "a"),
    },
    Case {
        name: "a branch that is a graph",
        build: |nerves| {
            let bad = Branch::new().subgraph(&inner(nerves)).output("n", "out");
            branching(Branches::new().branch("good", good()).branch("bad", bad))
        },
        fails: ("parallel_branches_branch_failed", "a"),
    },
    Case {
        name: "the condition of a branch",
        build: |nerves| {
            let asked = good().when(move |_: &Snapshot| {
                nerves.test();
                true
            });
            branching(Branches::new().branch("asked", asked))
        },
        fails: ("node_exception", "a"),
    },
    Case {
        name: "the record of a failed branch",
        build: |nerves| {
            let bad = Branch::new().call(|_| ready(Err(NodeError::new("down"))));
            let branches = Branches::new().branch("bad", bad).error_policy(ErrorPolicy::Collect);
            branching(branches.errors_field("errors").error_record(move |_, error| {
                nerves.test();
                error.to_string().into()
            }))
        },
        fails: ("node_exception", "a"),
    },
];

/// Asserts that each attempt which was told to have begun was told once to have ended.
fn whole(name: &str, told: &[String]) {
    for line in told.iter().filter(|it| it.contains(" started ")) {
        let (attempt, place) = line.split_once(" started ").unwrap();
        let ends = told.iter().filter(|it| it.starts_with(&format!("{attempt} completed {place} "))).count();
        assert_eq!(ends, 1, "{name}: {line}: {told:?}");
    }
}

// issue: §6; spec: graph-engine §4, pipeline-utilities §§5, 9, 11
#[tokio::test]
async fn a_panic_becomes_its_category_and_the_graph_runs_again() {
    for Case { name, build, fails } in [NODES, MIDDLEWARE, CONTAINERS].concat() {
        let nerves = Nerves::default();
        let graph = build(nerves.clone()).compile().unwrap();
        let (outcome, seen) = observed(&graph, json!({})).await;
        let error = outcome.unwrap_err();
        let node = error.node_location().map(|it| it.node.as_ref());
        assert_eq!(
            (error.category(), node),
            (fails.0, Some(fails.1)),
            "{name}: {}",
            format_error_chain(&error)
        );
        assert!(
            format_error_chain(&error).contains("panicked: bang"),
            "{name}: {}",
            format_error_chain(&error)
        );
        assert!(error.recoverable_state().is_some(), "{name}");
        whole(name, &seen.told());
        nerves.calm();
        let (outcome, seen) = observed(&graph, json!({})).await;
        assert!(outcome.is_ok(), "{name}: {outcome:?}");
        whole(name, &seen.told());
    }
}

// A failure that is collected is one also when it was a panic.
#[tokio::test]
async fn a_panic_in_a_member_is_collected_as_a_failure() {
    let collects = |fan: FanOut<Snapshot>| {
        fan.count(2)
            .error_policy(ErrorPolicy::Collect)
            .errors_field("errors")
            .error_record(|at, error| format!("{at}: {}", error.classify().message).into())
    };
    let graph = fanning(collects, Nerves::default()).compile().unwrap();
    let (outcome, seen) = observed(&graph, json!({})).await;
    let errors = json!(["0: panicked: bang", "1: panicked: bang"]);
    assert_eq!(crate::rig::completed(outcome), json!({"items": [], "errors": errors, "n": 0}));
    whole("collect", &seen.told());
}
