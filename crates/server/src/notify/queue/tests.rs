//! The order and the times of deliveries.

use proptest::prelude::*;
use singletree_durable::{InvocationId, TenantId};
use singletree_harness::NoticeKind;

use super::*;

const NOW: Timestamp = Timestamp::from_millis(0);

fn at(seconds: u64) -> Timestamp {
    NOW.saturating_add(Duration::from_secs(seconds))
}

fn notice(session: &str, n: u64) -> Arc<Notice> {
    Arc::new(Notice {
        // Of the largest pause.
        id: format!("ntc_{session}{n}ffff"),
        place: format!("{session}/{n:020}"),
        tenant: TenantId::single(),
        session: SessionId::parse(session).unwrap(),
        invocation: InvocationId::parse("i").unwrap(),
        turn: None,
        event: None,
        at: Timestamp::from_millis(i64::try_from(n).unwrap()),
        trace: None,
        what: NoticeKind::Resumed { wait: n, signal: "s".into(), how: "consumed".into() },
    })
}

fn queue(max: usize, notices: &[(&str, u64)]) -> NoticeQueue {
    let mut queue = NoticeQueue::new(max);
    queue.begin_store_read();
    notices.iter().for_each(|(session, n)| queue.add_notice(notice(session, *n), NOW));
    queue
}

/// Takes all that may be told at a moment.
fn take(queue: &mut NoticeQueue, now: Timestamp) -> Vec<Arc<Notice>> {
    std::iter::from_fn(|| queue.take_ready_notice(now)).map(|it| it.notice).collect()
}

fn names(notices: &[Arc<Notice>]) -> Vec<String> {
    notices.iter().map(|it| format!("{}{}", it.session, it.at.as_millis())).collect()
}

fn taken(queue: &mut NoticeQueue, now: Timestamp, expected: &[&str]) -> Vec<Arc<Notice>> {
    let taken = take(queue, now);
    assert_eq!(names(&taken), expected);
    taken
}

#[test]
fn notices_of_one_session_are_told_in_order_and_sessions_beside_each_other() {
    let mut queue = queue(9, &[("a", 2), ("b", 1), ("a", 1), ("a", 1)]);
    let first = taken(&mut queue, NOW, &["a1", "b1"]);
    assert_eq!(queue.time_until_due(NOW), None, "what is on its way comes first");
    queue.settle_notice(&first[0], NoticeOutcome::Over, NOW);
    let second = taken(&mut queue, NOW, &["a2"]);
    queue.settle_notice(&second[0], NoticeOutcome::Gone, NOW);
    queue.settle_notice(&first[1], NoticeOutcome::Over, NOW);
    assert_eq!((queue.len, queue.sessions.len(), queue.time_until_due(NOW)), (0, 0, None));
}

#[test]
fn one_that_is_never_taken_holds_up_its_own_session_and_nobody_else() {
    let mut queue = queue(9, &[("a", 1), ("a", 2)]);
    let mut now = NOW;
    for pause in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600] {
        let poison = taken(&mut queue, now, &["a1"]);
        queue.settle_notice(&poison[0], NoticeOutcome::Refused, now);
        assert_eq!(queue.time_until_due(now), Some(Duration::from_secs(pause)));
        queue.add_notice(notice("b", 1), now);
        let other = taken(&mut queue, now, &["b1"]);
        queue.settle_notice(&other[0], NoticeOutcome::Over, now);
        now = now.saturating_add(Duration::from_secs(pause));
    }
    // A notice without an attempt goes before it.
    queue.add_notice(notice("c", 9), now);
    taken(&mut queue, now, &["c9", "a1"]);
}

#[test]
fn an_endpoint_that_is_away_is_asked_by_one_and_ever_later() {
    let mut queue = queue(9, &[("a", 1), ("b", 2), ("c", 3)]);
    let first = taken(&mut queue, NOW, &["a1", "b2", "c3"]);
    first.iter().for_each(|it| queue.settle_notice(it, NoticeOutcome::Away(None), NOW));
    assert_eq!(queue.time_until_due(NOW), Some(Duration::from_secs(4)), "three failures");
    taken(&mut queue, at(3), &[]);
    let probe = taken(&mut queue, at(4), &["a1"]);
    assert_eq!(queue.time_until_due(at(4)), None, "nobody else is sent before it is answered");
    queue.settle_notice(&probe[0], NoticeOutcome::Away(None), at(4));
    let mut now = at(4);
    for pause in [8, 16, 32, 60, 60] {
        assert_eq!(queue.time_until_due(now), Some(Duration::from_secs(pause)));
        now = now.saturating_add(Duration::from_secs(pause));
        let probe = take(&mut queue, now);
        assert_eq!(probe.len(), 1);
        queue.settle_notice(&probe[0], NoticeOutcome::Away(None), now);
    }
    // It is back: all go on.
    now = now.saturating_add(Duration::from_secs(60));
    let probe = take(&mut queue, now);
    queue.settle_notice(&probe[0], NoticeOutcome::Over, now);
    assert_eq!(take(&mut queue, now).len(), 2);
}

#[test]
fn who_asks_to_be_left_alone_is_within_bounds() {
    let check = |asked: u64, expected: u64| {
        let mut queue = queue(9, &[("a", 1)]);
        let first = take(&mut queue, NOW);
        queue.settle_notice(&first[0], NoticeOutcome::Away(Some(Duration::from_secs(asked))), NOW);
        assert_eq!(queue.time_until_due(NOW), Some(Duration::from_secs(expected)));
    };
    check(0, 1);
    check(90, 90);
    check(90_000, 3600);
}

#[test]
fn what_was_taken_by_its_endpoint_is_not_sent_again() {
    let mut queue = queue(9, &[("a", 1)]);
    let first = queue.take_ready_notice(NOW).unwrap();
    queue.settle_notice(&first.notice, NoticeOutcome::Told, NOW);
    let again = queue.take_ready_notice(at(1)).unwrap();
    assert!(!first.told && again.told);
    queue.settle_notice(&again.notice, NoticeOutcome::Unread, at(1));
    assert!(queue.take_ready_notice(at(9)).unwrap().told);
}

// INV-12
#[test]
fn what_does_not_fit_is_read_when_there_is_room() {
    let mut queue = queue(4, &[("a", 1), ("b", 2), ("c", 3), ("d", 4)]);
    assert!(!queue.needs_store_read());
    queue.add_notice(notice("e", 5), NOW);
    assert_eq!((queue.len, queue.sessions.len()), (4, 4));
    for task in take(&mut queue, NOW) {
        assert!(!queue.needs_store_read() || queue.len <= 2);
        queue.settle_notice(&task, NoticeOutcome::Over, NOW);
    }
    assert!(queue.needs_store_read());
    queue.begin_store_read();
    queue.add_notice(notice("e", 5), NOW);
    assert!(!queue.needs_store_read());
    queue.mark_notices_missed();
    assert!(queue.needs_store_read());
}

proptest! {
    #[test]
    fn whatever_becomes_of_it_each_notice_is_over_once_and_in_order(
        steps in prop::collection::vec((0..4_u64, 0..6_usize, 0..40_u64), 1..300),
    ) {
        let (mut queue, mut now, mut next) = (queue(1000, &[]), NOW, 0);
        let mut going: Vec<QueuedNotice> = Vec::new();
        let mut over: Vec<Arc<Notice>> = Vec::new();
        let ends = [NoticeOutcome::Over, NoticeOutcome::Gone, NoticeOutcome::Told, NoticeOutcome::Refused, NoticeOutcome::Away(None), NoticeOutcome::Unread];
        for (what, how, much) in steps {
            match what {
                0 => {
                    next += 1;
                    queue.add_notice(notice(["a", "b", "c"][how % 3], next), now);
                }
                1 => {
                    for task in std::iter::from_fn(|| queue.take_ready_notice(now)) {
                        prop_assert!(going.iter().all(|it| it.notice.session != task.notice.session));
                        going.push(task);
                    }
                }
                2 if !going.is_empty() => {
                    let task = going.remove(how % going.len());
                    let end = if task.told { NoticeOutcome::Over } else { ends[how] };
                    queue.settle_notice(&task.notice, end, now);
                    if matches!(end, NoticeOutcome::Over | NoticeOutcome::Gone) {
                        over.push(task.notice);
                    }
                }
                _ => now = now.saturating_add(Duration::from_secs(much)),
            }
            prop_assert_eq!(queue.len, queue.sessions.values().map(BTreeMap::len).sum::<usize>());
            prop_assert_eq!(queue.taken, going.len());
            prop_assert_eq!(queue.len as u64 + over.len() as u64, next);
        }
        // An endpoint that takes everything gets everything that is left.
        for task in going {
            queue.settle_notice(&task.notice, NoticeOutcome::Over, now);
            over.push(task.notice);
        }
        while queue.len > 0 {
            match queue.take_ready_notice(now) {
                Some(task) => {
                    queue.settle_notice(&task.notice, NoticeOutcome::Over, now);
                    over.push(task.notice);
                }
                None => now = now.saturating_add(queue.time_until_due(now).unwrap().max(Duration::from_millis(1))),
            }
        }
        prop_assert_eq!(over.len() as u64, next);
        for session in ["a", "b", "c"] {
            let times: Vec<_> = over.iter().filter(|it| it.session.as_str() == session).map(|it| it.at).collect();
            prop_assert!(times.is_sorted(), "{:?}", times);
        }
    }
}
