//! Invariants of calls that are tried again (llm-provider §7.1).

use singletree::llm::{RetryReason, Role};

use super::attempts::{FailedAttempt, RecordedAttempt};
use super::calling::ProviderCallResult;
use super::invariants::MeasureRow;
use crate::check::ensure;

type Holds = Result<(), String>;

/// The category that a reask answers.
const INVALID: &str = "structured_output_invalid";

/// The rows.
pub(super) const ROWS: &[MeasureRow] = &[
    ("call_returns_successful_response_after_transient_retry", succeeds_after_transient),
    ("exhaustion_propagates_final_error", last_error_propagates),
    ("non_transient_exits_retry_loop_on_first_occurrence", non_transient_error_ends_call),
    ("no_backoff_sleep_invoked", waits_never),
    ("base_attempt_uses_caller_config", first_attempt_is_callers_request),
    ("per_attempt_override_applies_to_retries_only", overrides_apply_to_retries),
    ("reask_makes_structured_output_invalid_retryable", reasks_follow_invalid_output),
    ("appended_assistant_message_is_exactly_model_output", outputs_are_appended),
    ("appended_user_correction_is_exactly_builder_output", corrections_are_appended),
    ("reask_exhausts_max_attempts_budget", attempt_budget_is_used),
    ("final_structured_output_invalid_propagates", last_error_propagates),
    ("structured_output_invalid_not_retried_without_reask", invalid_output_ends_call),
    ("exactly_one_attempt_issued", makes_one_attempt),
    ("second_mock_response_never_consumed", second_answer_is_unused),
    ("override_and_reask_compose_on_reask_retries", reasks_and_overrides_combine),
    ("reask_transcript_accumulates_across_retries", transcript_grows),
    ("transient_retry_carries_accumulated_reask_transcript", transient_retry_keeps_transcript),
    ("retry_reason_discriminates_reask_vs_transient_in_one_loop", retries_for_both_reasons),
];

/// Returns how many messages the caller gave.
fn caller_message_count(called: &ProviderCallResult) -> usize {
    called.asked.as_ref().map_or(0, |asked| asked.messages.len())
}

fn attempt_failure(tried: &RecordedAttempt) -> Option<&FailedAttempt> {
    tried.ended.as_ref()?.as_ref().err()
}

/// Each attempt but the first, with the one before it.
fn retry_pairs(called: &ProviderCallResult) -> impl Iterator<Item = (&RecordedAttempt, &RecordedAttempt)> {
    called.tried.iter().zip(called.tried.iter().skip(1))
}

fn ensure_not_empty<T>(found: &[T], what: &str) -> Holds {
    ensure(!found.is_empty(), || format!("there is no {what}"))
}

fn succeeds_after_transient(called: &ProviderCallResult) -> Holds {
    called.require_response()?;
    let before: Vec<_> = retry_pairs(called).map(|(before, _)| before).collect();
    ensure_not_empty(&before, "retry")?;
    let all = before.iter().all(|it| attempt_failure(it).is_some_and(|failure| failure.is_transient));
    ensure(all, || "an attempt before failed otherwise".into())
}

/// The error of the call is that of its last attempt, and no attempt was left.
fn last_error_propagates(called: &ProviderCallResult) -> Holds {
    attempt_budget_is_used(called)?;
    let error = FailedAttempt::from_error(called.require_error()?);
    let last = called.tried.last().and_then(attempt_failure);
    ensure(last == Some(&error), || format!("the call failed with {error:?}, its last attempt with {last:?}"))
}

fn attempt_budget_is_used(called: &ProviderCallResult) -> Holds {
    let most =
        called.retry.as_ref().and_then(|retry| retry.max_attempts).ok_or("there is no number of attempts")?;
    let (tried, sent) = (called.tried.len(), called.sent.len());
    ensure(u32::try_from(tried) == Ok(most) && sent == tried, || format!("{tried} attempts, {sent} requests"))
}

fn non_transient_error_ends_call(called: &ProviderCallResult) -> Holds {
    makes_one_attempt(called)?;
    let may = called.retry.as_ref().and_then(|retry| retry.max_attempts).is_none_or(|value| value > 1);
    ensure(may && !called.require_error()?.is_transient(), || "it may be tried again, or had to end".into())
}

fn waits_never(called: &ProviderCallResult) -> Holds {
    let waits = called.pauses.len() + called.announced;
    ensure(waits == 0, || format!("{} waits, {} announced", called.pauses.len(), called.announced))
}

fn first_attempt_is_callers_request(called: &ProviderCallResult) -> Holds {
    let asked = called.asked.as_ref().ok_or("nothing was asked")?;
    let first = called.tried.first().ok_or("there was no attempt")?;
    ensure(first.request == *asked, || "the first attempt asked something else".into())
}

fn overrides_apply_to_retries(called: &ProviderCallResult) -> Holds {
    first_attempt_is_callers_request(called)?;
    let asked = called.asked.as_ref().ok_or("nothing was asked")?;
    let schedule = called.retry.as_ref().map(|retry| retry.overrides.as_slice()).unwrap_or_default();
    ensure_not_empty(schedule, "override")?;
    for (at, tried) in called.tried.iter().skip(1).enumerate() {
        let wanted = asked.config.overridden_by(&schedule[at.min(schedule.len() - 1)]);
        let found = &tried.request.config;
        ensure(*found == wanted, || format!("retry {at} asked with {found:?}, and not with {wanted:?}"))?;
    }
    Ok(())
}

fn reask_pairs(called: &ProviderCallResult) -> Vec<(&RecordedAttempt, &RecordedAttempt)> {
    retry_pairs(called).filter(|(_, it)| it.reason == Some(RetryReason::Reask)).collect()
}

fn reasks_follow_invalid_output(called: &ProviderCallResult) -> Holds {
    let reasks = reask_pairs(called);
    ensure_not_empty(&reasks, "reask")?;
    let all = reasks.iter().all(|(before, _)| before.failure_category() == Some(INVALID));
    ensure(all, || "a reask follows another failure".into())
}

/// Returns the messages with this role that the last attempt sends after the caller's messages.
fn appended_texts(called: &ProviderCallResult, role: Role) -> Vec<String> {
    let last =
        called.tried.last().map(|it| it.appended_messages(caller_message_count(called))).unwrap_or_default();
    last.into_iter().filter(|it| it.role == role).map(|it| it.text().into_owned()).collect()
}

fn outputs_are_appended(called: &ProviderCallResult) -> Holds {
    let outputs = reask_pairs(called)
        .iter()
        .filter_map(|(before, _)| attempt_failure(before)?.output.clone())
        .collect::<Vec<_>>();
    ensure_not_empty(&outputs, "reask")?;
    let found = appended_texts(called, Role::Assistant);
    ensure(found == outputs, || format!("expected {outputs:?}, found {found:?}"))
}

fn corrections_are_appended(called: &ProviderCallResult) -> Holds {
    ensure_not_empty(&called.corrections, "correction")?;
    let found = appended_texts(called, Role::User);
    ensure(found == called.corrections, || format!("expected {:?}, found {found:?}", called.corrections))
}

fn invalid_output_ends_call(called: &ProviderCallResult) -> Holds {
    makes_one_attempt(called)?;
    let reasks = called.retry.as_ref().is_some_and(|retry| retry.reask.is_some());
    ensure(!reasks && called.require_error()?.category() == INVALID, || {
        "it reasks, or failed otherwise".into()
    })
}

fn makes_one_attempt(called: &ProviderCallResult) -> Holds {
    let (tried, sent) = (called.tried.len(), called.sent.len());
    ensure(tried == 1 && sent == 1, || format!("{tried} attempts, {sent} requests"))
}

fn second_answer_is_unused(called: &ProviderCallResult) -> Holds {
    let (sent, left) = (called.sent.len(), called.left);
    ensure(sent == 1 && left > 0, || format!("{sent} answers were asked for, {left} are left"))
}

fn reasks_and_overrides_combine(called: &ProviderCallResult) -> Holds {
    reasks_follow_invalid_output(called)?;
    overrides_apply_to_retries(called)?;
    let base = called.asked.as_ref().ok_or("nothing was asked")?;
    let each = reask_pairs(called).into_iter();
    let mut each = each.map(|(_, it)| {
        it.request.config != base.config && !it.appended_messages(caller_message_count(called)).is_empty()
    });
    ensure(each.all(|it| it), || "a reask lacks one of them".into())
}

/// Each reask adds a pair of messages to the transcript before it, and there are at least two reasks.
fn transcript_grows(called: &ProviderCallResult) -> Holds {
    let reasks = reask_pairs(called);
    ensure(reasks.len() > 1, || "there are no two reasks".into())?;
    let grows = reasks.iter().all(|(before, it)| {
        let (before, it) = (&before.request.messages, &it.request.messages);
        it.len() == before.len() + 2 && it.starts_with(before)
    });
    ensure(grows, || "a reask does not add to what was there".into())
}

fn transient_retry_keeps_transcript(called: &ProviderCallResult) -> Holds {
    let after: Vec<_> = retry_pairs(called)
        .filter(|(before, it)| {
            it.reason == Some(RetryReason::Transient)
                && !before.appended_messages(caller_message_count(called)).is_empty()
        })
        .collect();
    ensure_not_empty(&after, "transient retry after a reask")?;
    let same = after.iter().all(|(before, it)| before.request.messages == it.request.messages);
    ensure(same, || "a transient retry asked something else".into())
}

fn retries_for_both_reasons(called: &ProviderCallResult) -> Holds {
    let has = |reason| called.tried.iter().any(|it| it.reason == Some(reason));
    let right = retry_pairs(called).all(|(before, it)| match it.reason {
        Some(RetryReason::Reask) => before.failure_category() == Some(INVALID),
        Some(RetryReason::Transient) => attempt_failure(before).is_some_and(|failure| failure.is_transient),
        None => false,
    });
    ensure(right && has(RetryReason::Reask) && has(RetryReason::Transient), || {
        "not both, or not right".into()
    })
}
