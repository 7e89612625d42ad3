//! How long a server asks to wait.

use std::time::Duration;

use crate::transport::HttpResponse;

/// Reads how long a server asks to wait before the next call (RFC 9110 §10.2.3).
///
/// `retry-after-ms` goes before `retry-after`. A date is measured against the `date` of the same answer, so that no
/// clock is needed and a wrong one of ours does no harm; without that header it is not understood. A date that is over
/// is no wait.
#[must_use]
pub fn retry_after(response: &HttpResponse) -> Option<Duration> {
    if let Some(wait) =
        response.header("retry-after-ms").and_then(|header| parse_delay_duration(header, 1000.0))
    {
        return Some(wait);
    }
    let told = response.header("retry-after")?;
    parse_delay_duration(told, 1.0).or_else(|| {
        let (until, now) = (parse_http_date(told)?, parse_http_date(response.header("date")?)?);
        Some(Duration::from_secs(until.saturating_sub(now)))
    })
}

fn parse_delay_duration(text: &str, per_second: f64) -> Option<Duration> {
    let text = text.trim();
    let number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let count: f64 = if number { text.parse().ok()? } else { return None };
    Duration::try_from_secs_f64(count / per_second).ok()
}

/// Reads a date as servers write it, `Sun, 06 Nov 1994 08:49:37 GMT`; seconds since 1970. The two obsolete forms are
/// not read.
fn parse_http_date(text: &str) -> Option<u64> {
    let mut parts = text.trim().split_once(", ")?.1.split(' ');
    let (day, month, year, time) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    if parts.next()? != "GMT" || parts.next().is_some() {
        return None;
    }
    let day: u64 = parse_bounded_number(day, 1, 31)?;
    let month = MONTHS.iter().position(|it| *it == month)? as u64 + 1;
    let year = parse_bounded_number(year, 1970, 9999)?;
    let mut clock = time.split(':');
    let hour = parse_bounded_number(clock.next()?, 0, 23)?;
    let minute = parse_bounded_number(clock.next()?, 0, 59)?;
    let second = parse_bounded_number(clock.next()?, 0, 60)?;
    if clock.next().is_some() {
        return None;
    }
    Some(((days_since_epoch(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

fn parse_bounded_number(text: &str, least: u64, most: u64) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let value: u64 = if digits { text.parse().ok()? } else { return None };
    (least..=most).contains(&value).then_some(value)
}

/// Counts the days since 1970-01-01. A year begins in March here, so that the leap day is its last.
fn days_since_epoch(year: u64, month: u64, day: u64) -> u64 {
    const UNTIL_1970: u64 = 719_468;
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before = year * 365 + year / 4 - year / 100 + year / 400;
    before + (153 * month + 2) / 5 + (day - 1) - UNTIL_1970
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &[(&str, &str)], expected: Option<Duration>) {
        let headers: Vec<_> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let body = Box::pin(futures_util::stream::empty());
        let response = HttpResponse { status: 429, headers: headers.clone(), body };
        assert_eq!(retry_after(&response), expected, "{headers:?}");
    }

    #[test]
    fn seconds_milliseconds_and_dates_are_understood() {
        let s = |count| Some(Duration::from_secs(count));
        check(&[], None);
        check(&[("retry-after", "30")], s(30));
        check(&[("retry-after", " 0 ")], s(0));
        check(&[("retry-after", "1.5")], Some(Duration::from_millis(1500)));
        check(&[("retry-after-ms", "250"), ("retry-after", "9")], Some(Duration::from_millis(250)));
        let date = ("date", "Tue, 28 Feb 2028 23:59:30 GMT");
        check(&[("retry-after", "Tue, 29 Feb 2028 00:00:10 GMT"), date], s(40));
        check(&[("retry-after", "Wed, 01 Mar 2028 00:00:00 GMT"), date], s(30 + 24 * 3600));
        check(&[("retry-after", "Mon, 27 Feb 2028 00:00:00 GMT"), date], s(0));
    }

    #[test]
    fn what_is_not_understood_is_no_wait() {
        for text in [
            "",
            "soon",
            "-1",
            "inf",
            "NaN",
            "1e3",
            "1.2.3",
            "Tue, 29 Feb 2028 00:00:10 GMT",
            "Sun, 32 Nov 1994 08:49:37 GMT",
        ] {
            check(&[("retry-after", text)], None);
        }
        check(&[("retry-after", "99999999999999999999999999")], None);
    }

    #[test]
    fn dates_are_counted_from_1970() {
        assert_eq!(parse_http_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        // RFC 9110 §5.6.7
        assert_eq!(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
    }
}
