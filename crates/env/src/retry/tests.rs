//! Tests of the retry record.

use std::sync::Mutex;

use futures_util::FutureExt;

use super::*;

#[derive(Debug, Default)]
struct Failed {
    transient: bool,
    asked: Option<Duration>,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("failed")
    }
}

impl RetryableError for Failed {
    fn category(&self) -> Option<&str> {
        self.transient.then_some(TRANSIENT_CATEGORIES[0])
    }

    fn is_transient(&self) -> bool {
        self.transient
    }

    fn retry_after(&self) -> Option<Duration> {
        self.asked
    }
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

// spec: pipeline-utilities §6.1, llm-provider §7: Retry-After
#[test]
fn the_default_backoff_doubles_under_jitter_and_grants_requested_waits() {
    for (attempt, asked, fraction, wanted) in [
        (0, None, 1.0, seconds(1)),
        (0, None, 0.0, Duration::ZERO),
        (3, None, 0.5, seconds(4)),
        (5, None, 1.0, seconds(30)),
        (u32::MAX, None, 1.0, seconds(30)),
        (0, None, 7.0, seconds(1)),
        (0, Some(20), 1.0, seconds(20)),
        (4, Some(2), 1.0, seconds(16)),
        (0, Some(3600), 1.0, seconds(60)),
    ] {
        let error = Failed { asked: asked.map(seconds), ..Failed::default() };
        assert_eq!(
            RetryBackoff::default().wait_after_attempt(attempt, &error, || fraction),
            wanted,
            "{attempt} {asked:?}"
        );
    }
    let asking = Failed { asked: Some(seconds(20)), ..Failed::default() };
    let draws = || -> f64 { panic!("without jitter nothing is drawn") };
    assert_eq!(RetryBackoff::Constant(seconds(3)).wait_after_attempt(7, &asking, draws), seconds(3));
    let own = RetryBackoff::from_function(|attempt| seconds(u64::from(attempt)));
    assert_eq!(own.wait_after_attempt(7, &asking, draws), seconds(7));
}

#[test]
fn the_default_record_tries_transient_errors_three_times() {
    let retry = Retry::default();
    assert_eq!(retry.attempt_limit(), 3);
    for transient in [false, true] {
        let error = Failed { transient, ..Failed::default() };
        assert_eq!(retry.is_retryable(&error, &()), transient);
    }
    assert_eq!(format!("{:?}", retry.retry_backoff()), "Jittered(1s..30s, asked 60s)");
}

#[test]
fn a_classifier_sees_the_error_and_the_state_by_their_types() {
    let retry = Retry::new().classifier(|error, state| {
        error.downcast_ref::<Failed>().is_some_and(|failed| failed.asked.is_some())
            && state.downcast_ref::<u8>() == Some(&7)
    });
    let (asking, silent) = (Failed { asked: Some(seconds(1)), ..Failed::default() }, Failed::default());
    assert!(retry.is_retryable(&asking, &7_u8));
    assert!(!retry.is_retryable(&silent, &7_u8));
    assert!(!retry.is_retryable(&asking, &()));
}

#[test]
fn a_callback_is_called_with_the_attempt_and_its_error_is_returned() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    let retry = Retry::new().on_retry(move |error, attempt| {
        hears.lock().unwrap().push(format!("{attempt} {error}"));
        let ended = if attempt == 1 { Err("enough".into()) } else { Ok(()) };
        async move { ended }.boxed()
    });
    let announce = |retry: &Retry, attempt| {
        let announced = retry.notify_on_retry(&Failed::default(), attempt).now_or_never();
        announced.expect("the callback does not wait").map_err(|error| error.to_string())
    };
    assert_eq!(announce(&Retry::new(), 1), Ok(()));
    assert_eq!(announce(&retry, 0), Ok(()));
    assert_eq!(announce(&retry, 1), Err("enough".to_owned()));
    assert_eq!(*heard.lock().unwrap(), ["0 failed", "1 failed"]);
}
