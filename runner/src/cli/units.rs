//! How people write and read durations, sizes and counts: `30s`, `64MiB`, `10G`.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

const DURATIONS: &[(&str, u64)] = &[
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 7 * 86_400_000),
];
const SIZES: &[(&str, u64)] = &[
    ("b", 1),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
];
const COUNTS: &[(&str, u64)] =
    &[("k", 1_000), ("m", 1_000_000), ("g", 1_000_000_000), ("t", 1_000_000_000_000)];

/// Reads a duration: numbers with a unit, one after another (`90s`, `1h30m`, `1.5s`).
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let invalid = || {
        format!(
            "{text:?} is not a duration: write a number and a unit (ms, s, m, h, d, w), \
             such as 30s, 5m or 1h30m"
        )
    };
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total_ms: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let ms = scaled(number, unit, DURATIONS).ok_or_else(invalid)?;
        total_ms = total_ms.checked_add(ms).ok_or_else(invalid)?;
        rest = after;
    }
    Ok(Duration::from_millis(total_ms))
}

/// Reads a size in bytes: a number, with or without a unit (`64MiB`, `1.5GiB`, `4096`).
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    one_number(text, SIZES).ok_or_else(|| {
        format!(
            "{text:?} is not a size: write bytes or a number and a unit (KiB, MiB, GiB, kB, MB, \
             GB), such as 64MiB"
        )
    })
}

/// Reads a count: a number, with or without a unit (`10G`, `1_000_000`).
pub(crate) fn parse_count(text: &str) -> Result<u64, String> {
    one_number(text, COUNTS).ok_or_else(|| {
        format!("{text:?} is not a count: write a number, or one with k, M, G or T, such as 10G")
    })
}

/// Reads a count of things of which there has to be one.
pub(crate) fn parse_at_least_one(text: &str) -> Result<usize, String> {
    match parse_count(text)?.try_into() {
        Ok(0) => Err("it has to be 1 or more".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err("that is too many".to_owned()),
    }
}

fn one_number(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim().replace('_', "");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    match unit.trim() {
        "" => number.parse().ok(),
        unit => scaled(number, unit, units),
    }
}

fn scaled(number: &str, unit: &str, units: &[(&str, u64)]) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    let (_, scale) = units.iter().find(|(name, _)| *name == unit)?;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(*scale);
    }
    let product = number.parse::<f64>().ok()? * *scale as f64;
    // Past 2^53 a fraction would lose digits silently.
    (0.0..9e15).contains(&product).then(|| product.round() as u64)
}

/// A duration in one or two units, as short as it is useful: `840 µs`, `12.3 ms`, `4.2 s`, `3m 20s`.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let two = |big: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{big}{unit}"),
        small => format!("{big}{unit} {small}{small_unit}"),
    };
    match seconds {
        0 if duration.as_micros() < 1_000 => format!("{} µs", duration.as_micros()),
        0 => format!("{:.1} ms", duration.as_secs_f64() * 1e3),
        1..60 if duration.subsec_millis() < 50 => format!("{seconds}s"),
        1..60 => format!("{:.1} s", duration.as_secs_f64()),
        60..3_600 => two(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// A size with three digits or so: `512 B`, `1.4 MiB`, `64 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    if bytes < 1 << 10 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    short(value, UNITS[unit])
}

/// A count with three digits or so: `950`, `1.2 M`, `10 G`.
pub(crate) fn count(count: u64) -> String {
    const UNITS: [&str; 5] = ["", "k", "M", "G", "T"];
    if count < 1_000 {
        return count.to_string();
    }
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    short(value, UNITS[unit])
}

fn short(value: f64, unit: &str) -> String {
    if value >= 100.0 || value.fract() < 0.05 {
        format!("{value:.0} {unit}")
    } else {
        format!("{value:.1} {unit}")
    }
}

/// A number with its digits in groups of three.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time as seen from `now`: `1m 20s ago`, `in 5m`, `now`. From two of a unit on, that unit alone.
pub(crate) fn relative(time: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let distance = (now - time).num_seconds();
    let seconds = distance.unsigned_abs();
    let whole = [86_400, 3_600, 60].into_iter().find(|unit| seconds >= 2 * unit).unwrap_or(1);
    let text = duration(Duration::from_secs(seconds - seconds % whole));
    match distance {
        0 => "now".to_owned(),
        1.. => format!("{text} ago"),
        _ => format!("in {text}"),
    }
}

/// Reads a point in time: RFC 3339 with its offset.
pub(crate) fn parse_time(text: &str) -> Result<DateTime<Utc>, String> {
    DateTime::parse_from_rfc3339(text.trim()).map(|time| time.to_utc()).map_err(|_| {
        format!(
            "{text:?} is not a time: write it with date, time and offset, such as \
             2027-01-31T18:00:00Z or 2027-01-31T18:00:00+01:00, or use --in 5m"
        )
    })
}

/// The time this long from `now`.
pub(crate) fn after(now: DateTime<Utc>, delay: Duration) -> Option<DateTime<Utc>> {
    now.checked_add_signed(TimeDelta::from_std(delay).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_units_and_refused_without() {
        for (text, ms) in [
            ("30s", 30_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("1h30m", 5_400_000),
            ("250ms", 250),
            ("1.5s", 1_500),
            ("1d", 86_400_000),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["", "30", "s", "5x", "-5s", "1..5s", "99999999999999w", "5s!"] {
            let error = parse_duration(bad).unwrap_err();
            assert!(error.contains("is not a duration"), "{bad:?}: {error}");
        }
    }

    #[test]
    fn sizes_and_counts_are_read_with_and_without_units() {
        for (text, bytes) in [
            ("64MiB", 64 << 20),
            ("4096", 4096),
            ("1.5 KiB", 1536),
            ("1MB", 1_000_000),
            ("8k", 8192),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        assert_eq!(parse_count("10G"), Ok(10_000_000_000));
        assert_eq!(parse_count("1_000"), Ok(1_000));
        for bad in ["", "MiB", "64MiBs", "-1", "1.5", "20000000TiB", "x"] {
            assert!(parse_bytes(bad).is_err(), "{bad:?} was accepted");
        }
        assert!(parse_count("18446744073709551616").is_err());
    }

    #[test]
    fn values_are_shown_short() {
        let shown = |ms| duration(Duration::from_millis(ms));
        assert_eq!(
            [shown(12), shown(30_000), shown(4_200), shown(200_000), shown(90_000_000)],
            ["12.0 ms", "30s", "4.2 s", "3m 20s", "1d 1h"]
        );
        assert_eq!(duration(Duration::from_micros(840)), "840 µs");
        assert_eq!([bytes(512), bytes(1_468_006), bytes(64 << 20)], ["512 B", "1.4 MiB", "64 MiB"]);
        assert_eq!([count(950), count(1_234_567), count(10_000_000_000)], ["950", "1.2 M", "10 G"]);
        assert_eq!([grouped(7), grouped(1_000), grouped(1_234_567)], ["7", "1,000", "1,234,567"]);
    }

    #[test]
    fn times_are_shown_from_now_and_read_with_their_offset() {
        let now = parse_time("2027-01-31T18:00:00+01:00").unwrap();
        assert_eq!(now, parse_time("2027-01-31T17:00:00Z").unwrap());
        assert_eq!(relative(now, now), "now");
        assert_eq!(relative(now, now + TimeDelta::seconds(80)), "1m 20s ago");
        assert_eq!(relative(now, now + TimeDelta::seconds(200)), "3m ago");
        assert_eq!(relative(after(now, Duration::from_secs(300)).unwrap(), now), "in 5m");
        assert!(after(now, Duration::MAX).is_none());
        for bad in ["", "tomorrow", "2027-01-31", "2027-01-31T18:00:00"] {
            assert!(parse_time(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
