//! The order of polls.

use std::future::{pending, poll_fn, ready};
use std::sync::Mutex;

use super::*;

fn context<T>(work: impl FnOnce(&mut Context<'_>) -> T) -> T {
    work(&mut Context::from_waker(Waker::noop()))
}

/// A future that notes each poll, and ends at the n-th.
fn noting(book: &Mutex<Vec<u64>>, number: u64, polls: usize) -> BoxFuture<'_, u64> {
    let mut left = polls;
    Box::pin(poll_fn(move |cx| {
        book.lock().unwrap().push(number);
        left -= 1;
        cx.waker().wake_by_ref();
        if left == 0 { Poll::Ready(number) } else { Poll::Pending }
    }))
}

fn all(crew: &mut IndexedFutures<'_, u64>) -> Vec<u64> {
    let mut ended = Vec::new();
    while let Poll::Ready(Some((number, value))) = context(|cx| crew.poll_next_ended(cx, || false)) {
        assert_eq!(number, value);
        ended.push(number);
    }
    ended
}

#[test]
fn members_go_on_in_the_order_of_their_numbers() {
    let book = Mutex::new(Vec::new());
    let mut crew = IndexedFutures::new();
    for (number, polls) in [(2, 1), (0, 2), (1, 1)] {
        crew.add_future(number, noting(&book, number, polls));
    }
    assert_eq!(all(&mut crew), [0, 1, 2]);
    assert_eq!(*book.lock().unwrap(), [0, 0, 1, 2]);
    assert!(matches!(context(|cx| crew.poll_next_ended(cx, || false)), Poll::Ready(None)));
}

#[test]
fn who_is_not_woken_is_not_polled() {
    let book = Mutex::new(Vec::new());
    let mut crew = IndexedFutures::new();
    crew.add_future(0, Box::pin(pending::<u64>()));
    crew.add_future(1, noting(&book, 1, 1));
    assert_eq!(all(&mut crew), [1]);
    assert_eq!((crew.len(), crew.ready.len()), (1, 0));
}

#[test]
fn a_halt_stops_the_others_and_loses_nobody() {
    let book = Mutex::new(Vec::new());
    let mut crew = IndexedFutures::new();
    crew.add_future(0, Box::pin(pending::<u64>()));
    crew.add_future(1, noting(&book, 1, 1));
    assert!(context(|cx| crew.poll_next_ended(cx, || true)).is_pending());
    assert_eq!(*book.lock().unwrap(), [0_u64; 0]);
    assert_eq!(all(&mut crew), [1]);
    crew.add_future(2, Box::pin(ready(2)));
    assert_eq!(all(&mut crew), [2]);
}
