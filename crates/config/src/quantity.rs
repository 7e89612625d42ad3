//! Lengths of time and amounts of bytes, as people write them.

use std::time::Duration;

/// How large a length of time may be: ten years.
const SECONDS_MAX: u64 = 10 * 365 * 24 * 3600;

/// Reads `250ms`, `30s`, `5m`, `2h`, `7d`: a whole number and a unit, more than nothing.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_number_and_unit(text)?;
    let unit = match unit {
        "ms" => return Some(Duration::from_millis(number)).filter(|value| value.as_secs() <= SECONDS_MAX),
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return None,
    };
    number.checked_mul(unit).filter(|checked_mul| *checked_mul <= SECONDS_MAX).map(Duration::from_secs)
}

/// Reads `500B`, `64KiB`, `10MiB`, `1GiB`, and the same by thousands: `64kB`, `10MB`, `1GB`.
pub(crate) fn parse_byte_count(text: &str) -> Option<u64> {
    let (number, unit) = split_number_and_unit(text)?;
    let unit = match unit {
        "B" => 1,
        "kB" => 1_000,
        "KiB" => 1 << 10,
        "MB" => 1_000_000,
        "MiB" => 1 << 20,
        "GB" => 1_000_000_000,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

fn split_number_and_unit(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|it: char| !it.is_ascii_digit())?;
    let number: u64 = text[..end].parse().ok().filter(|parsed| *parsed > 0)?;
    Some((number, text[end..].trim_start_matches(' ')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_has_a_unit_and_is_more_than_nothing() {
        let check = |text: &str, millis: Option<u128>| {
            assert_eq!(parse_duration(text).map(|duration| duration.as_millis()), millis, "{text}");
        };
        check("250ms", Some(250));
        check("30s", Some(30_000));
        check("5 m", Some(300_000));
        check("2h", Some(7_200_000));
        check("7d", Some(604_800_000));
        for wrong in ["", "s", "30", "0s", "-1s", "1.5s", "1w", "30seconds", "99999999999999d", "9999d9", "é"]
        {
            check(wrong, None);
        }
    }

    #[test]
    fn an_amount_of_bytes_has_a_unit() {
        let check = |text: &str, count: Option<u64>| assert_eq!(parse_byte_count(text), count, "{text}");
        check("500B", Some(500));
        check("64KiB", Some(65_536));
        check("64 kB", Some(64_000));
        check("1GiB", Some(1 << 30));
        for wrong in ["64", "64K", "64kb", "0B", "99999999999999GiB"] {
            check(wrong, None);
        }
    }
}
