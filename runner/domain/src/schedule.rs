//! When a schedule fires: a cron expression read in a time zone.
//!
//! **The rule for clock changes.**
//!
//! 1. A schedule whose hour or minute is a wildcard or a step (`*`, `*/15`, `0 */2 * * *`) means an interval.
//!    It runs in absolute time: at every instant at which the zone's clock shows a time that it names. Where
//!    the clock is set back it fires in both passes of the repeated hour, so an hourly one never pauses; what the
//!    clock skips does not fire.
//! 2. Any other schedule means times of day.
//!    - A time that the clock skips fires once, at the first instant after the gap. Several times in one gap,
//!      and a time that is just that instant, are one fire.
//!    - A time that the clock shows twice fires once, the first time.
//!
//! Fires are whole seconds, strictly increasing. Where day of month and day of week are both named (neither
//! begins with `*`), a day that fits either is enough, as in every cron.

mod cron;
#[cfg(test)]
mod tests;

use chrono::{DateTime, NaiveDateTime, Offset, TimeDelta, TimeZone, Utc};
use chrono_tz::Tz;

pub use cron::{Cron, InvalidCron};

/// How far apart the zone's clock is compared when a change is sought. No zone has two changes within it.
const STRIDE: TimeDelta = TimeDelta::hours(12);
/// Fires are not counted any further.
pub const MAX_COUNTED: usize = 100_000;

/// A cron expression in a time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Which readings of the clock.
    pub cron: Cron,
    /// Whose clock.
    pub zone: Tz,
}

/// A range has more fires than asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{} fires, more than {most}", if self.is_counted() { "" } else { "over " }, .count)]
pub struct TooManyFires {
    /// How many, counted up to [`MAX_COUNTED`].
    pub count: usize,
    /// How many were allowed.
    pub most: usize,
}

impl TooManyFires {
    fn is_counted(&self) -> bool {
        self.count < MAX_COUNTED
    }
}

/// Why a schedule's time cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTiming {
    /// The expression.
    #[error("cron: {0}")]
    Cron(#[from] InvalidCron),
    /// The zone.
    #[error("timezone: there is no time zone '{0}'; write one as Europe/Berlin, or UTC")]
    Zone(String),
}

impl InvalidTiming {
    /// Which of the two is wrong: `cron` or `timezone`.
    pub fn field(&self) -> &'static str {
        match self {
            InvalidTiming::Cron(_) => "cron",
            InvalidTiming::Zone(_) => "timezone",
        }
    }
}

impl Timing {
    /// Reads both.
    ///
    /// # Errors
    /// Names the field that is wrong.
    pub fn read(cron: &str, zone: &str) -> Result<Timing, InvalidTiming> {
        let zone = zone.parse().map_err(|_| InvalidTiming::Zone(zone.to_owned()))?;
        Ok(Timing { cron: cron.parse()?, zone })
    }

    /// The first fire after an instant; `None` after the last that a calendar can write.
    pub fn next_after(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        match self.cron.is_in_absolute_time() {
            true => self.next_instant(after),
            false => self.next_time_of_day(after),
        }
    }

    /// Fires from the first on, for as long as there are some.
    pub fn fires_from(&self, from: DateTime<Utc>) -> impl Iterator<Item = DateTime<Utc>> {
        let before = from - TimeDelta::nanoseconds(1);
        std::iter::successors(self.next_after(before), |fire| self.next_after(*fire))
    }

    /// All fires at or after `from` and before `to`.
    ///
    /// # Errors
    /// With their count when they are more than `most`.
    pub fn fires_between(
        &self,
        from: DateTime<Utc>,
        to: DateTime<Utc>,
        most: usize,
    ) -> Result<Vec<DateTime<Utc>>, TooManyFires> {
        let mut fires = self.fires_from(from).take_while(|fire| *fire < to);
        let found: Vec<_> = fires.by_ref().take(most).collect();
        match fires.take(MAX_COUNTED.saturating_sub(most)).count() {
            0 => Ok(found),
            more => Err(TooManyFires { count: most + more, most }),
        }
    }

    /// An instant as the zone's clock shows it.
    pub fn shown(&self, instant: DateTime<Utc>) -> String {
        instant.with_timezone(&self.zone).format("%a %Y-%m-%d %H:%M:%S %Z").to_string()
    }

    fn next_time_of_day(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let mut reading = self.reading_at(after);
        loop {
            // In the second pass of a repeated hour the readings to come have fired already.
            reading = self.cron.next_reading(reading)?;
            let fire = match self.zone.from_local_datetime(&reading).earliest() {
                Some(instant) => instant.to_utc(),
                None => self.end_of_gap(reading)?,
            };
            if fire > after {
                return Some(fire);
            }
        }
    }

    fn next_instant(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let mut since = after;
        let mut reading = self.cron.next_reading(self.reading_at(after))?;
        loop {
            // As if the clock went on as it does.
            let fire = (reading - self.offset_at(since)).and_utc();
            match self.change_between(since, fire) {
                None => return Some(fire),
                Some(change) => {
                    since = change;
                    reading = self.cron.reading_from(self.reading_at(change))?;
                }
            }
        }
    }

    /// The first instant after a gap of the clock that a reading lies in.
    fn end_of_gap(&self, reading: NaiveDateTime) -> Option<DateTime<Utc>> {
        // No zone is more than 14 hours from UTC, and no gap is longer than a day.
        let (mut from, to) = (
            reading.and_utc().checked_sub_signed(TimeDelta::hours(40))?,
            reading.and_utc().checked_add_signed(TimeDelta::hours(40))?,
        );
        loop {
            let change = self.change_between(from, to)?;
            let skipped_from = change.naive_utc() + self.offset_at(from);
            if skipped_from <= reading && reading < self.reading_at(change) {
                return Some(change);
            }
            from = change;
        }
    }

    /// The first whole second after `from` and up to `to` at which the clock differs from UTC by something
    /// else than at `from`.
    fn change_between(&self, from: DateTime<Utc>, to: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let offset = self.offset_at(from);
        // Clocks are changed at whole seconds.
        let mut same = DateTime::from_timestamp(from.timestamp(), 0)?;
        let mut other = loop {
            let probe = same.checked_add_signed(STRIDE)?.min(to);
            if self.offset_at(probe) != offset {
                break probe;
            }
            if probe >= to {
                return None;
            }
            same = probe;
        };
        while other - same > TimeDelta::seconds(1) {
            let middle = same + TimeDelta::seconds((other - same).num_seconds() / 2);
            match self.offset_at(middle) == offset {
                true => same = middle,
                false => other = middle,
            }
        }
        Some(other)
    }

    fn offset_at(&self, instant: DateTime<Utc>) -> chrono::FixedOffset {
        self.zone.offset_from_utc_datetime(&instant.naive_utc()).fix()
    }

    fn reading_at(&self, instant: DateTime<Utc>) -> NaiveDateTime {
        instant.with_timezone(&self.zone).naive_local()
    }
}
