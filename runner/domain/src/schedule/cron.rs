//! Cron expressions: reading them, and which readings of a wall clock they name.
//!
//! Read here and not by a library: those that there are have a rule for clock changes of their own, which
//! is not the one promised in `schedule`, and their refusals do not say which field is wrong.

use std::fmt;
use std::str::FromStr;

use chrono::{Datelike, Days, NaiveDate, NaiveDateTime, NaiveTime, Timelike};

/// The calendar repeats after 400 years: what has no day in them has none ever.
const CALENDAR_DAYS: u32 = 146_097;
/// No longer text is read.
const MAX_LENGTH: usize = 255;

/// A cron expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    text: String,
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: u64,
    last_day: bool,
    months: u64,
    weekdays: u64,
    /// Both kinds of day are named, so either is enough.
    either_day: bool,
    in_absolute_time: bool,
}

/// Why a text is no cron expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCron {
    /// One of its fields is wrong.
    #[error("{field} '{text}' {why}")]
    Field {
        /// Which, in words.
        field: &'static str,
        /// What stands there.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// Other than five or six fields.
    #[error(
        "it has {0} fields; write five (minute, hour, day of month, month, day of week), or six with the \
         seconds first"
    )]
    Fields(usize),
    /// A name that is none.
    #[error("'{0}' is not one of @yearly, @monthly, @weekly, @daily, @hourly")]
    Name(String),
    /// No calendar has such a day.
    #[error("no month that it names has the day of month '{0}'")]
    NoSuchDay(String),
    /// Too long.
    #[error("it has more than {MAX_LENGTH} bytes")]
    TooLong,
}

impl Cron {
    /// Its hour or minute is a wildcard or a step, so it means an interval.
    pub(super) fn is_in_absolute_time(&self) -> bool {
        self.in_absolute_time
    }

    /// The first reading after this one that it names.
    pub(super) fn next_reading(&self, after: NaiveDateTime) -> Option<NaiveDateTime> {
        let from = after.with_nanosecond(0)?.checked_add_signed(chrono::TimeDelta::seconds(1))?;
        self.reading_from(from)
    }

    /// The first reading at or after this whole second that it names.
    pub(super) fn reading_from(&self, from: NaiveDateTime) -> Option<NaiveDateTime> {
        if self.has_day(from.date())
            && let Some(time) = self.time_from(from.time())
        {
            return Some(from.date().and_time(time));
        }
        let day = self.day_from(from.date().succ_opt()?)?;
        Some(day.and_time(self.time_from(NaiveTime::MIN)?))
    }

    fn time_from(&self, from: NaiveTime) -> Option<NaiveTime> {
        let hour = next_bit(self.hours, from.hour())?;
        let (minute, second) =
            if hour == from.hour() { (from.minute(), from.second()) } else { (0, 0) };
        if let Some((minute, second)) = self.minute_from(minute, second) {
            return NaiveTime::from_hms_opt(hour, minute, second);
        }
        let hour = next_bit(self.hours, hour + 1)?;
        let (minute, second) = self.minute_from(0, 0)?;
        NaiveTime::from_hms_opt(hour, minute, second)
    }

    fn minute_from(&self, from: u32, second: u32) -> Option<(u32, u32)> {
        let minute = next_bit(self.minutes, from)?;
        let second = if minute == from { second } else { 0 };
        if let Some(second) = next_bit(self.seconds, second) {
            return Some((minute, second));
        }
        Some((next_bit(self.minutes, minute + 1)?, next_bit(self.seconds, 0)?))
    }

    fn day_from(&self, from: NaiveDate) -> Option<NaiveDate> {
        let (mut day, mut left) = (from, CALENDAR_DAYS);
        while !self.has_day(day) {
            // Months that it does not name are passed over whole.
            let days = match has(self.months, day.month()) {
                true => 1,
                false => days_left(day),
            };
            left = left.checked_sub(days)?;
            day = day.checked_add_days(Days::new(days.into()))?;
        }
        Some(day)
    }

    fn has_day(&self, date: NaiveDate) -> bool {
        let day = has(self.days, date.day()) || (self.last_day && days_left(date) == 1);
        let weekday = has(self.weekdays, date.weekday().num_days_from_sunday());
        let fits = if self.either_day { day || weekday } else { day && weekday };
        has(self.months, date.month()) && fits
    }
}

impl FromStr for Cron {
    type Err = InvalidCron;

    fn from_str(text: &str) -> Result<Self, InvalidCron> {
        if text.len() > MAX_LENGTH {
            return Err(InvalidCron::TooLong);
        }
        let fields: Vec<&str> = spelled_out(text.trim())?.split_whitespace().collect();
        let (second, [minute, hour, day, month, weekday]) = match fields[..] {
            [minute, hour, day, month, weekday] => ("0", [minute, hour, day, month, weekday]),
            [second, minute, hour, day, month, weekday] => {
                (second, [minute, hour, day, month, weekday])
            }
            _ => return Err(InvalidCron::Fields(fields.len())),
        };
        let last_day = day.split(',').any(|item| item.eq_ignore_ascii_case("L"));
        let weekdays = WEEKDAY.read(weekday)?;
        let cron = Cron {
            text: fields.join(" "),
            seconds: SECOND.read(second)?,
            minutes: MINUTE.read(minute)?,
            hours: HOUR.read(hour)?,
            days: DAY.read(day)?,
            last_day,
            months: MONTH.read(month)?,
            // Sunday is 0 and 7.
            weekdays: (weekdays | weekdays >> 7) & 0x7f,
            either_day: !day.starts_with(['*', '?']) && !weekday.starts_with(['*', '?']),
            in_absolute_time: [minute, hour].iter().any(|field| field.contains(['*', '/'])),
        };
        match cron.day_from(NaiveDate::from_ymd_opt(2000, 1, 1).unwrap_or_default()) {
            Some(_) => Ok(cron),
            None => Err(InvalidCron::NoSuchDay(day.to_owned())),
        }
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn spelled_out(text: &str) -> Result<&str, InvalidCron> {
    if !text.starts_with('@') {
        return Ok(text);
    }
    match text.to_ascii_lowercase().as_str() {
        "@yearly" | "@annually" => Ok("0 0 1 1 *"),
        "@monthly" => Ok("0 0 1 * *"),
        "@weekly" => Ok("0 0 * * 0"),
        "@daily" | "@midnight" => Ok("0 0 * * *"),
        "@hourly" => Ok("0 * * * *"),
        _ => Err(InvalidCron::Name(text.to_owned())),
    }
}

/// What may stand in a field.
struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    /// Words for the numbers from `least` on.
    words: &'static [&'static str],
}

const SECOND: Field = Field { name: "second", least: 0, most: 59, words: &[] };
const MINUTE: Field = Field { name: "minute", least: 0, most: 59, words: &[] };
const HOUR: Field = Field { name: "hour", least: 0, most: 23, words: &[] };
const DAY: Field = Field { name: "day of month", least: 1, most: 31, words: &[] };
const MONTH: Field = Field {
    name: "month",
    least: 1,
    most: 12,
    words: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const WEEKDAY: Field = Field {
    name: "day of week",
    least: 0,
    most: 7,
    words: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

impl Field {
    /// The numbers of a field, as bits.
    fn read(&self, text: &str) -> Result<u64, InvalidCron> {
        text.split(',').try_fold(0, |bits, item| Ok(bits | self.item(item)?))
    }

    fn item(&self, item: &str) -> Result<u64, InvalidCron> {
        // The last day of a month is no number: whoever reads the field sees to it.
        if self.name == DAY.name && item.eq_ignore_ascii_case("L") {
            return Ok(0);
        }
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (item, None),
        };
        let (first, last) = match range.split_once('-') {
            // A wildcard for the days of the week has Sunday once, or every second day would be wrong.
            None if range == "*" => (self.least, if self.most == 7 { 6 } else { self.most }),
            None if range == "?" && [DAY.name, WEEKDAY.name].contains(&self.name) => {
                (self.least, self.most)
            }
            None => {
                let number = self.number(range)?;
                (number, if step.is_some() { self.most } else { number })
            }
            Some((first, last)) => (self.number(first)?, self.number(last)?),
        };
        if first > last {
            return Err(self.wrong(item, "begins after it ends; write two ranges with a comma"));
        }
        let step = match step.map(str::parse::<u32>) {
            None => 1,
            Some(Ok(step)) if (1..=self.most.max(1)).contains(&step) => step,
            Some(_) => {
                return Err(self.wrong(item, &format!("has a step not within 1 to {}", self.most)));
            }
        };
        let stepped = (first..=last).step_by(usize::try_from(step).unwrap_or(usize::MAX));
        Ok(stepped.fold(0, |bits, number| bits | 1 << number))
    }

    fn number(&self, text: &str) -> Result<u32, InvalidCron> {
        let word = |word: &&str| word.eq_ignore_ascii_case(text);
        if let Some(at) = self.words.iter().position(word) {
            return Ok(self.least + u32::try_from(at).unwrap_or_default());
        }
        let Field { least, most, .. } = self;
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            let words = if self.words.is_empty() { "" } else { ", and no name of one" };
            let why = format!("is no number from {least} to {most}{words}");
            return Err(self.wrong(text, &why));
        }
        match text.parse() {
            Ok(number) if (*least..=*most).contains(&number) => Ok(number),
            _ => Err(self.wrong(text, &format!("is not within {least} to {most}"))),
        }
    }

    fn wrong(&self, text: &str, why: &str) -> InvalidCron {
        InvalidCron::Field { field: self.name, text: text.to_owned(), why: why.to_owned() }
    }
}

fn has(bits: u64, number: u32) -> bool {
    bits >> number & 1 == 1
}

fn next_bit(bits: u64, from: u32) -> Option<u32> {
    let left = bits & u64::MAX.checked_shl(from)?;
    (left != 0).then(|| left.trailing_zeros())
}

/// Days of its month from this one on, itself included.
fn days_left(date: NaiveDate) -> u32 {
    u32::from(date.num_days_in_month()).saturating_sub(date.day()) + 1
}
