//! Calls that are made again, and calls that are not (spec: llm-provider §7.1).

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};
use serde_json::{Value, json};

use super::*;
use crate::{
    BoxFuture, BoxStream, ConstantRandomSource, InstantTimer, InvalidOutput, Map, ModelFinishReason,
    ProviderErrorDetail, RetryBackoff, RuntimeConfig, Schema, TokenUsage,
};

/// The lowest, the middle and the highest jitter.
const LOWEST: ConstantRandomSource = ConstantRandomSource::from_fraction(0.0);
const HALF: ConstantRandomSource = ConstantRandomSource::from_fraction(0.5);
const HIGHEST: ConstantRandomSource = ConstantRandomSource::from_fraction(1.0);

/// Plays outcomes in order, and keeps the requests.
#[derive(Debug, Default)]
struct Plays {
    outcomes: Mutex<VecDeque<Result<&'static str>>>,
    asked: Mutex<Vec<Request>>,
}

impl Plays {
    fn of(outcomes: impl IntoIterator<Item = Result<&'static str>>) -> Self {
        Self { outcomes: Mutex::new(outcomes.into_iter().collect()), asked: Mutex::default() }
    }

    fn next(&self, request: &Request) -> Result<&'static str> {
        self.asked.lock().unwrap().push(request.clone());
        self.outcomes.lock().unwrap().pop_front().expect("the test says what comes")
    }

    fn left(&self) -> usize {
        self.outcomes.lock().unwrap().len()
    }

    /// The messages that each request had after the caller's messages.
    fn appended(&self, own: usize) -> Vec<Vec<(String, String)>> {
        let told = |it: &Arc<ChatMessage>| (it.role.to_string(), it.text().into_owned());
        self.asked.lock().unwrap().iter().map(|it| it.messages[own..].iter().map(told).collect()).collect()
    }

    fn temperatures(&self) -> Vec<Option<f64>> {
        self.asked.lock().unwrap().iter().map(|it| it.config.temperature).collect()
    }
}

impl Provider for Plays {
    fn model_name(&self) -> &'static str {
        "plays"
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        async { Ok(()) }.boxed()
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        async move {
            request.check()?;
            let message = ChatMessage::assistant(self.next(request)?);
            Response::new(message, ModelFinishReason::Stop, TokenUsage::default(), Value::Null)
                .validate_against(request)
        }
        .boxed()
    }

    fn can_stream(&self) -> bool {
        true
    }

    fn stream_deltas<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        async move {
            let finish = ResponseDelta::Finish {
                reason: ModelFinishReason::Stop,
                usage: TokenUsage::default(),
                raw: Value::Null,
            };
            let deltas = match self.next(request) {
                Ok(text) => vec![Ok(ResponseDelta::from_text(text)), Ok(finish)],
                // A stream that breaks off has shown something.
                Err(error) => vec![Ok(ResponseDelta::from_text("half")), Err(error)],
            };
            Ok(stream::iter(deltas).boxed())
        }
        .boxed()
    }
}

/// Keeps the reports of attempts, as text.
#[derive(Debug, Default)]
struct Told(Mutex<Vec<String>>);

impl AttemptObserver for Told {
    fn on_attempt_started(&self, attempt: &ProviderCallAttempt<'_>) {
        let reason = attempt.reason.map_or("none", RetryReason::as_str);
        self.0.lock().unwrap().push(format!("{} {reason}", attempt.index));
    }

    fn on_attempt_ended(&self, attempt: &ProviderCallAttempt<'_>, outcome: Result<&Response, &Error>) {
        let how = outcome.map_or_else(Error::category, |it| it.finish_reason.as_str());
        self.0.lock().unwrap().push(format!("{} {how}", attempt.index));
    }
}

#[derive(Debug, Default)]
struct Pauses(Mutex<Vec<Duration>>);

impl Timer for Pauses {
    fn sleep_for(&self, length: Duration) -> BoxFuture<'_, ()> {
        self.0.lock().unwrap().push(length);
        async {}.boxed()
    }
}

fn down(what: &str) -> Error {
    Error::Unavailable(ProviderErrorDetail::new(what))
}

fn asked() -> Request {
    Request::new(vec![Arc::new(ChatMessage::user("go"))])
}

fn person() -> Request {
    let schema = json!({"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]});
    asked().with_response_schema(Arc::new(Schema::compile(schema).unwrap()))
}

fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("nothing here waits")
}

/// Makes a call, and returns the outcome and the reports to the observer.
fn ask(
    provider: &Plays,
    retry: &ModelRetryPolicy,
    request: &Request,
) -> (Result<String, &'static str>, Vec<String>) {
    let told = Told::default();
    let ask = ProviderCall::of(provider).retrying(retry, &InstantTimer, &HALF).with_observer(&told);
    let outcome = now(ask.complete(request));
    let outcome = outcome.map(|it| it.message.text().into_owned()).map_err(|it| it.category());
    (outcome, told.0.into_inner().unwrap())
}

fn say_again(invalid: &InvalidOutput) -> String {
    format!("not {}", invalid.output_content)
}

// spec: llm-provider §7.1
#[test]
fn transient_errors_are_retried_up_to_the_last_attempt_and_others_never() {
    type Outcomes = Vec<Result<&'static str>>;
    type Row<'a> = (u32, Outcomes, Result<String, &'a str>, &'a [&'a str], usize);
    let cases: [Row<'_>; 6] = [
        (3, vec![Ok("a")], Ok("a".into()), &["0 none", "0 stop"], 0),
        (
            2,
            vec![Err(down("1")), Ok("a")],
            Ok("a".into()),
            &["0 none", "0 provider_unavailable", "1 transient", "1 stop"],
            0,
        ),
        (
            2,
            vec![Err(down("1")), Err(Error::RateLimit(ProviderErrorDetail::new("2"))), Ok("a")],
            Err("provider_rate_limit"),
            &["0 none", "0 provider_unavailable", "1 transient", "1 provider_rate_limit"],
            1,
        ),
        (
            3,
            vec![Err(Error::Authentication(ProviderErrorDetail::new("no"))), Ok("a")],
            Err("provider_authentication"),
            &["0 none", "0 provider_authentication"],
            1,
        ),
        (
            1,
            vec![Err(down("1")), Ok("a")],
            Err("provider_unavailable"),
            &["0 none", "0 provider_unavailable"],
            1,
        ),
        (0, vec![Ok("a")], Err("provider_invalid_request"), &[], 1),
    ];
    for (attempts, outcomes, wanted, told, left) in cases {
        let provider = Plays::of(outcomes);
        let retry = ModelRetryPolicy::new().max_attempts(attempts);
        assert_eq!(ask(&provider, &retry, &asked()), (wanted, told.iter().map(|&it| it.into()).collect()));
        assert_eq!(provider.left(), left);
    }
}

// spec: pipeline-utilities §6.1: three attempts unless something else is said
#[test]
fn a_call_without_a_retry_is_made_once_and_a_retry_makes_three_attempts() {
    let provider = Plays::of([Err(down("1")), Err(down("2")), Ok("a")]);
    assert_eq!(now(ProviderCall::of(&provider).complete(&asked())).unwrap_err().to_string(), "1");
    assert_eq!(provider.left(), 2);
    let provider = Plays::of([Err(down("1")), Err(down("2")), Err(down("3")), Ok("a")]);
    assert_eq!(ask(&provider, &ModelRetryPolicy::new(), &asked()).0, Err("provider_unavailable"));
    assert_eq!(provider.left(), 1);
}

// spec: llm-provider §7.1, fixture 061
#[test]
fn the_schedule_applies_to_retries_carries_forward_and_leaves_the_request_alone() {
    let with = |temperature: Option<f64>| RuntimeConfig { temperature, ..RuntimeConfig::default() };
    for (schedule, wanted) in [
        (vec![], vec![Some(0.0); 4]),
        (vec![with(Some(0.3))], vec![Some(0.0), Some(0.3), Some(0.3), Some(0.3)]),
        (vec![with(Some(0.3)), with(None)], vec![Some(0.0), Some(0.3), Some(0.0), Some(0.0)]),
        (
            vec![with(Some(0.3)), with(Some(0.6)), with(Some(0.9)), with(Some(1.2))],
            vec![Some(0.0), Some(0.3), Some(0.6), Some(0.9)],
        ),
    ] {
        let provider = Plays::of([Err(down("1")), Err(down("2")), Err(down("3")), Ok("a")]);
        let retry = ModelRetryPolicy::new().max_attempts(4).per_attempt_override(schedule);
        let request = asked().with_config(with(Some(0.0)));
        let before = request.clone();
        ask(&provider, &retry, &request).0.unwrap();
        assert_eq!(provider.temperatures(), wanted);
        assert_eq!(request, before);
    }
}

// spec: llm-provider §6, §7.1: null inherits, extras by the same rule
#[test]
fn an_override_replaces_what_it_sets_and_clears_nothing() {
    let extras = |value: Value| value.as_object().cloned().unwrap_or_else(Map::new);
    let base = RuntimeConfig {
        temperature: Some(0.1),
        max_tokens: Some(10),
        stop_sequences: Some(vec!["A".into(), "B".into()]),
        extras: extras(json!({"a": 1, "b": {"deep": 1}})),
        ..RuntimeConfig::default()
    };
    let other = RuntimeConfig {
        seed: Some(7),
        stop_sequences: Some(vec!["C".into()]),
        extras: extras(json!({"a": null, "b": {"other": 2}, "c": 3})),
        ..RuntimeConfig::default()
    };
    let wanted = RuntimeConfig {
        temperature: Some(0.1),
        max_tokens: Some(10),
        seed: Some(7),
        stop_sequences: Some(vec!["C".into()]),
        extras: extras(json!({"a": 1, "b": {"other": 2}, "c": 3})),
        ..RuntimeConfig::default()
    };
    assert_eq!(base.overridden_by(&other), wanted);
    assert_eq!(base.overridden_by(&RuntimeConfig::default()), base);
}

// spec: llm-provider §7.1, fixtures 062 to 066
#[test]
fn a_reask_appends_output_and_correction_and_keeps_them_through_transient_retries() {
    let provider = Plays::of([Ok("{}"), Err(down("1")), Ok(r#"{"age":"x"}"#), Ok(r#"{"age":1}"#)]);
    let retry = ModelRetryPolicy::new().max_attempts(4).reask(say_again);
    let request = person();
    let before = request.clone();
    let (outcome, told) = ask(&provider, &retry, &request);
    assert_eq!(outcome, Ok(r#"{"age":1}"#.into()));
    let starts: Vec<&str> = told.iter().step_by(2).map(String::as_str).collect();
    assert_eq!(starts, ["0 none", "1 reask", "2 transient", "3 reask"]);
    let pair = |output: &str| {
        [("assistant".to_owned(), output.to_owned()), ("user".to_owned(), format!("not {output}"))]
    };
    let (first, second) = (pair("{}").to_vec(), pair(r#"{"age":"x"}"#));
    let both = first.iter().cloned().chain(second).collect();
    assert_eq!(provider.appended(1), [vec![], first.clone(), first, both]);
    assert_eq!(request, before);
}

// spec: llm-provider §7.1: the builder is asked only when another attempt is left
#[test]
fn a_reask_is_off_by_default_shares_the_budget_and_is_not_built_in_vain() {
    let built = Arc::new(Mutex::new(0));
    let counting = Arc::clone(&built);
    let reask = ModelRetryPolicy::new().max_attempts(2).reask(move |it| {
        *counting.lock().unwrap() += 1;
        say_again(it)
    });
    for (retry, left, builds) in
        [(ModelRetryPolicy::new(), 2, 0), (reask.clone().max_attempts(1), 2, 0), (reask, 1, 1)]
    {
        *built.lock().unwrap() = 0;
        let provider = Plays::of([Ok("{}"), Ok("{}"), Ok(r#"{"age":1}"#)]);
        assert_eq!(ask(&provider, &retry, &person()).0, Err("structured_output_invalid"));
        assert_eq!((provider.left(), *built.lock().unwrap()), (left, builds));
    }
}

#[test]
fn what_cannot_be_a_message_ends_the_reask_with_the_error_itself() {
    let silent = Plays::of([Ok(""), Ok(r#"{"age":1}"#)]);
    assert_eq!(
        ask(&silent, &ModelRetryPolicy::new().reask(say_again), &person()).0,
        Err("structured_output_invalid")
    );
    let wordless = Plays::of([Ok("{}"), Ok(r#"{"age":1}"#)]);
    let retry = ModelRetryPolicy::new().reask(|_| String::new());
    assert_eq!(ask(&wordless, &retry, &person()).0, Err("structured_output_invalid"));
    assert_eq!((silent.left(), wordless.left()), (1, 1));
}

// spec: llm-provider §7.1: a classifier may retry it, and then the same is asked again
#[test]
fn a_classifier_says_what_is_retried() {
    let provider = Plays::of([Ok("{}"), Ok(r#"{"age":1}"#)]);
    let retry = ModelRetryPolicy::new().classifier(|it| it.category() == "structured_output_invalid");
    let (outcome, told) = ask(&provider, &retry, &person());
    assert_eq!((outcome, told[2].as_str()), (Ok(r#"{"age":1}"#.into()), "1 transient"));
    assert_eq!(provider.appended(1), [vec![], vec![]]);
    let never = Plays::of([Err(down("1")), Ok("a")]);
    assert_eq!(
        ask(&never, &ModelRetryPolicy::new().classifier(|_| false), &asked()).0,
        Err("provider_unavailable")
    );
}

// spec: pipeline-utilities §6.1: it fires before each sleep
#[test]
fn on_retry_hears_each_failure_before_the_wait_and_may_end_the_attempts() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    let retry = ModelRetryPolicy::new().max_attempts(4).on_retry(move |error, attempt| {
        hears.lock().unwrap().push(format!("{attempt} {error}"));
        let flow = if attempt == 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        async move { flow }.boxed()
    });
    let provider = Plays::of([Err(down("a")), Err(down("b")), Ok("c")]);
    let pauses = Pauses::default();
    let error =
        now(ProviderCall::of(&provider).retrying(&retry, &pauses, &HIGHEST).complete(&asked())).unwrap_err();
    assert_eq!(error.to_string(), "b");
    assert_eq!(*heard.lock().unwrap(), ["0 a", "1 b"]);
    assert_eq!(pauses.0.into_inner().unwrap(), [Duration::from_secs(1)]);
}

// spec: pipeline-utilities §6.1, llm-provider §7: Retry-After
#[test]
fn the_default_backoff_doubles_under_jitter_and_grants_what_a_provider_asks_for() {
    let seconds = Duration::from_secs;
    let limited =
        |after: u64| Error::RateLimit(ProviderErrorDetail::new("slow").with_retry_after(seconds(after)));
    let default = RetryBackoff::default();
    for (attempt, error, fraction, wanted) in [
        (0, down("x"), 1.0, seconds(1)),
        (0, down("x"), 0.0, Duration::ZERO),
        (3, down("x"), 0.5, seconds(4)),
        (5, down("x"), 1.0, seconds(30)),
        (u32::MAX, down("x"), 1.0, seconds(30)),
        (0, down("x"), 7.0, seconds(1)),
        (0, limited(20), 1.0, seconds(20)),
        (4, limited(2), 1.0, seconds(16)),
        (0, limited(3600), 1.0, seconds(60)),
    ] {
        assert_eq!(default.wait_after_attempt(attempt, &error, || fraction), wanted, "{attempt} {error:?}");
    }
    let own = RetryBackoff::from_function(move |attempt| seconds(u64::from(attempt)));
    assert_eq!(own.wait_after_attempt(7, &limited(20), || 1.0), seconds(7));
    assert_eq!(RetryBackoff::Constant(seconds(3)).wait_after_attempt(7, &limited(20), || 1.0), seconds(3));
}

#[test]
fn what_a_failed_attempt_showed_is_taken_back_before_the_next_one() {
    let provider = Plays::of([Err(down("1")), Ok("whole")]);
    let retry = ModelRetryPolicy::new();
    let mut shown = Vec::new();
    let ask = ProviderCall::of(&provider).retrying(&retry, &InstantTimer, &LOWEST);
    let response = now(ask.complete_with_updates(&asked(), |it| match it {
        ModelStreamUpdate::Delta(ResponseDelta::Text { text, .. }) => shown.push(text.clone()),
        ModelStreamUpdate::Delta(_) => {}
        ModelStreamUpdate::Void => shown.push("(void)".into()),
    }));
    assert_eq!(response.unwrap().message.text(), "whole");
    assert_eq!(shown, ["half", "(void)", "whole"]);
}

// spec: llm-provider §7.1: cancellation is no failure
#[test]
fn a_dropped_call_is_not_made_again() {
    #[derive(Debug)]
    struct Never;
    impl Timer for Never {
        fn sleep_for(&self, _length: Duration) -> BoxFuture<'_, ()> {
            std::future::pending().boxed()
        }
    }
    let provider = Plays::of([Err(down("1")), Ok("a")]);
    let told = Told::default();
    let retry = ModelRetryPolicy::new();
    let ask = ProviderCall::of(&provider).retrying(&retry, &Never, &HIGHEST).with_observer(&told);
    assert!(ask.complete(&asked()).now_or_never().is_none());
    assert_eq!(provider.left(), 1);
    assert_eq!(*told.0.lock().unwrap(), ["0 none", "0 provider_unavailable"]);
}

/// Plays answers that finish for a reason.
#[derive(Debug)]
struct Finishes(Mutex<VecDeque<Response>>);

impl Finishes {
    fn of(answers: &[(&str, ModelFinishReason)]) -> Self {
        let answer = |(text, reason): &(&str, ModelFinishReason)| {
            Response::new(ChatMessage::assistant(*text), *reason, TokenUsage::default(), Value::Null)
        };
        Self(Mutex::new(answers.iter().map(answer).collect()))
    }
}

impl Provider for Finishes {
    fn model_name(&self) -> &'static str {
        "finishes"
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        async { Ok(()) }.boxed()
    }

    fn complete<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Response>> {
        async move { Ok(self.0.lock().unwrap().pop_front().expect("the test says what comes")) }.boxed()
    }

    fn can_stream(&self) -> bool {
        false
    }

    fn stream_deltas<'a>(
        &'a self,
        _: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        unreachable!("it is asked for whole answers")
    }
}

// Finding F20; spec: llm-provider §7, §7.1
#[test]
fn an_answer_that_finished_with_error_is_asked_for_again_and_the_last_one_stands() {
    use ModelFinishReason::{Error as Failed, Length, Stop};

    let plain = ModelRetryPolicy::new().max_attempts(2);
    let never = ModelRetryPolicy::new().classifier(|_| false);
    for (retry, answers, expected, left) in [
        (Some(&plain), vec![("half", Failed), ("whole", Stop)], ("whole", Stop), 0),
        (Some(&plain), vec![("half", Failed), ("more", Failed), ("unasked", Stop)], ("more", Failed), 1),
        (Some(&plain), vec![("cut", Length), ("unasked", Stop)], ("cut", Length), 1),
        (Some(&never), vec![("half", Failed), ("unasked", Stop)], ("half", Failed), 1),
        (None, vec![("half", Failed), ("unasked", Stop)], ("half", Failed), 1),
    ] {
        let provider = Finishes::of(&answers);
        let ask = ProviderCall::of(&provider);
        let ask = match retry {
            Some(retry) => ask.retrying(retry, &InstantTimer, &HALF),
            None => ask,
        };
        let request = Request::new(vec![Arc::new(ChatMessage::user("u"))]);
        let response = ask.complete(&request).now_or_never().unwrap().unwrap();
        assert_eq!((response.message.text().as_ref(), response.finish_reason), expected);
        assert_eq!(provider.0.lock().unwrap().len(), left, "{answers:?}");
    }
    // Its calls are for the caller to look at.
    let call = crate::ToolCall { arguments: None, ..crate::ToolCall::new("c", "t", Map::new()) };
    let provider = Finishes::of(&[]);
    let message = ChatMessage::assistant("").with_tool_calls([call]);
    let called = Response::new(message, Failed, TokenUsage::default(), Value::Null);
    provider.0.lock().unwrap().push_back(called.clone());
    let ask = ProviderCall::of(&provider).retrying(&plain, &InstantTimer, &HALF);
    let request = Request::new(vec![Arc::new(ChatMessage::user("u"))]);
    assert_eq!(ask.complete(&request).now_or_never().unwrap().unwrap(), called);
}
