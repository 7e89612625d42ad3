//! A rate: so many in a period at once, and one more whenever that part of the period has passed.

use std::time::Duration;

use singletree_durable::Timestamp;

/// The usage of a rate. Its size does not depend on the rate.
///
/// It holds the time at which the usage is zero again (the generic cell rate algorithm).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RateMeter {
    /// In microseconds since 1970.
    free_at: i64,
}

/// So many in a period.
#[derive(Debug, Clone, Copy)]
pub(super) struct QuotaRate {
    pub(super) limit: u64,
    pub(super) period: Duration,
}

impl QuotaRate {
    pub(super) const fn new(limit: u64, period: Duration) -> Self {
        Self { limit, period }
    }

    fn period_micros(self) -> i64 {
        i64::try_from(self.period.as_micros()).unwrap_or(i64::MAX)
    }

    /// Returns which part of the period one of them takes.
    fn micros_per_unit(self) -> i64 {
        let limit = i64::try_from(self.limit).unwrap_or(i64::MAX);
        self.period_micros().checked_div(limit).unwrap_or(0).max(1)
    }
}

impl RateMeter {
    /// Returns how long to wait before one more is within the rate; nothing when it is now.
    pub(super) fn required_wait(&self, rate: QuotaRate, now: Timestamp) -> Option<Duration> {
        if rate.limit == 0 {
            return Some(rate.period);
        }
        let over = self.used_micros(rate, micros_since_epoch(now)).saturating_add(rate.micros_per_unit())
            - rate.period_micros();
        u64::try_from(over).ok().filter(|it| *it > 0).map(Duration::from_micros)
    }

    /// Counts one more.
    pub(super) fn count_one_use(&mut self, rate: QuotaRate, now: Timestamp) {
        let now = micros_since_epoch(now);
        self.free_at = now.saturating_add(self.used_micros(rate, now)).saturating_add(rate.micros_per_unit());
    }

    /// Tells whether nothing is used up.
    pub(super) fn is_free(&self, now: Timestamp) -> bool {
        self.free_at <= micros_since_epoch(now)
    }

    /// Returns how much of the period is used up. A clock that was set back uses up no more than the period.
    fn used_micros(&self, rate: QuotaRate, now: i64) -> i64 {
        self.free_at.saturating_sub(now).clamp(0, rate.period_micros())
    }
}

fn micros_since_epoch(at: Timestamp) -> i64 {
    at.as_millis().saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    /// Takes as many as there are now.
    fn drain(meter: &mut RateMeter, rate: QuotaRate, now: Timestamp) -> u64 {
        let mut taken = 0;
        while meter.required_wait(rate, now).is_none() {
            meter.count_one_use(rate, now);
            taken += 1;
        }
        taken
    }

    // INV-12
    #[test]
    fn a_rate_grants_its_limit_at_once_and_then_one_whenever_its_part_of_the_period_has_passed() {
        for limit in [1, 7, 20, 600, 6000] {
            let (mut meter, rate) = (RateMeter::default(), QuotaRate::new(limit, MINUTE));
            assert_eq!(drain(&mut meter, rate, at(1_000_000)), limit);
            let wait = meter.required_wait(rate, at(1_000_000)).unwrap();
            assert!(wait <= MINUTE / u32::try_from(limit).unwrap() + Duration::from_millis(1), "{wait:?}");
            let then = at(1_000_000 + i64::try_from(wait.as_millis()).unwrap() + 1);
            assert_eq!(drain(&mut meter, rate, then), 1, "{limit}");
            assert_eq!(drain(&mut meter, rate, at(1_200_000)), limit);
        }
        assert_eq!(RateMeter::default().required_wait(QuotaRate::new(0, MINUTE), at(0)), Some(MINUTE));
    }

    #[test]
    fn a_clock_that_is_set_back_blocks_nobody_for_longer_than_the_period() {
        let (mut meter, rate) = (RateMeter::default(), QuotaRate::new(2, MINUTE));
        assert_eq!(drain(&mut meter, rate, at(10_000_000)), 2);
        assert_eq!(meter.required_wait(rate, at(1_000_000)), Some(MINUTE / 2));
        assert!(!meter.is_free(at(10_059_999)) && meter.is_free(at(10_060_000)));
    }
}
