use chrono::{DateTime, Datelike, Duration, NaiveDate, Utc};

use super::*;

const ZONES: [&str; 7] = [
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Africa/Cairo",
    "UTC",
];

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn timing(cron: &str, zone: &str) -> Timing {
    Timing::read(cron, zone).unwrap()
}

fn fires(cron: &str, zone: &str, from: &str, to: &str) -> Vec<String> {
    let fires = timing(cron, zone).fires_between(at(from), at(to), 1_000).unwrap();
    fires.iter().map(|fire| fire.format("%dT%H:%M:%S").to_string()).collect()
}

fn refusal(cron: &str) -> String {
    cron.parse::<Cron>().unwrap_err().to_string()
}

/// Sao Paulo had clock changes until 2019, Cairo has them again since 2023.
const DECADES: [(&str, &str); 2] = [
    ("2009-06-01T00:00:00Z", "2019-06-01T00:00:00Z"),
    ("2020-01-01T00:00:00Z", "2030-01-01T00:00:00Z"),
];

#[test]
fn a_daily_schedule_fires_once_each_local_day_over_ten_years_of_clock_changes() {
    // Half past two is skipped in most zones, midnight in Sao Paulo and Cairo.
    for (cron, zone) in ZONES.iter().flat_map(|zone| [("30 2 * * *", zone), ("0 0 * * *", zone)]) {
        for (from, to) in DECADES {
            let timing = timing(cron, zone);
            let fires = timing.fires_between(at(from), at(to), 10_000).unwrap();
            let days: Vec<NaiveDate> =
                fires.iter().map(|fire| fire.with_timezone(&timing.zone).date_naive()).collect();
            let wanted: Vec<NaiveDate> = days[0].iter_days().take(days.len()).collect();
            assert_eq!(days, wanted, "{cron} in {zone}");
            assert!((3651..=3653).contains(&days.len()), "{} for {cron} in {zone}", days.len());
            assert!(fires.is_sorted_by(|a, b| a < b), "{cron} in {zone}");
        }
    }
}

#[test]
fn an_hourly_schedule_fires_each_3600_seconds_over_ten_years_of_clock_changes() {
    for zone in ZONES {
        for (from, to) in DECADES {
            let fires = timing("@hourly", zone).fires_between(at(from), at(to), 100_000).unwrap();
            let odd: Vec<i64> = fires
                .windows(2)
                .map(|pair| (pair[1] - pair[0]).num_seconds())
                .filter(|seconds| *seconds != 3600)
                .collect();
            // Where the clock is set by half an hour, the full hour is half an hour later from then on.
            let wanted = if zone == "Australia/Lord_Howe" { vec![5400; 20] } else { Vec::new() };
            assert_eq!(odd, wanted, "{zone}");
        }
    }
}

#[test]
fn a_quarter_of_an_hour_is_one_in_every_zone_and_every_second_is_one() {
    for zone in ZONES {
        let fires = timing("*/15 * * * *", zone)
            .fires_between(at("2024-01-01T00:00:00Z"), at("2025-01-01T00:00:00Z"), 50_000)
            .unwrap();
        assert!(fires.windows(2).all(|pair| pair[1] - pair[0] == Duration::minutes(15)), "{zone}");
        assert_eq!(fires.len(), 366 * 96, "{zone}");
    }
    let (from, to) = ("2024-10-27T00:59:58Z", "2024-10-27T01:00:01Z");
    let wanted = ["27T00:59:58", "27T00:59:59", "27T01:00:00"];
    assert_eq!(fires("* * * * * *", "Europe/Berlin", from, to), wanted);
}

#[test]
fn times_that_the_clock_skips_fire_once_right_after_the_gap() {
    // Berlin went from 02:00 to 03:00 at 01:00Z.
    let day = ("2024-03-31T00:00:00Z", "2024-03-31T22:00:00Z");
    let berlin = |cron| fires(cron, "Europe/Berlin", day.0, day.1);
    assert_eq!(berlin("30 2 * * *"), ["31T01:00:00"]);
    assert_eq!(berlin("0,15,45 2 * * *"), ["31T01:00:00"]);
    assert_eq!(berlin("0 2,3,4 * * *"), ["31T01:00:00", "31T02:00:00"]);
    assert_eq!(berlin("30 1,2,3 * * *"), ["31T00:30:00", "31T01:00:00", "31T01:30:00"]);
    // An interval has nothing to make up for.
    assert_eq!(berlin("*/30 2,3 * * *"), ["31T01:00:00", "31T01:30:00"]);
    // The whole of 30 December 2011 is missing in Samoa.
    let samoa = fires("30 2 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", "2012-01-01T00:00:00Z");
    assert_eq!(samoa, ["29T12:30:00", "30T10:00:00", "30T12:30:00", "31T12:30:00"]);
}

#[test]
fn times_that_the_clock_shows_twice_fire_the_first_time_only() {
    // Berlin went from 03:00 back to 02:00 at 01:00Z.
    let (from, to) = ("2024-10-26T23:00:00Z", "2024-10-27T03:00:00Z");
    assert_eq!(fires("30 2 * * *", "Europe/Berlin", from, to), ["27T00:30:00"]);
    let both = fires("30 2,3 * * *", "Europe/Berlin", from, to);
    assert_eq!(both, ["27T00:30:00", "27T02:30:00"]);
    let interval = fires("30 * * * *", "Europe/Berlin", from, to);
    assert_eq!(interval, ["26T23:30:00", "27T00:30:00", "27T01:30:00", "27T02:30:00"]);
    // Asked in the second pass: the first one stands.
    let next = timing("30 2 * * *", "Europe/Berlin").next_after(at("2024-10-27T01:10:00Z"));
    assert_eq!(next, Some(at("2024-10-28T01:30:00Z")));
}

#[test]
fn a_timer_that_wakes_early_gets_the_same_fire_and_one_that_is_late_the_next() {
    let hourly = timing("0 * * * *", "UTC");
    let fire = at("2024-05-01T12:00:00Z");
    assert_eq!(hourly.next_after(at("2024-05-01T11:59:59.999Z")), Some(fire));
    assert_eq!(hourly.next_after(fire), Some(at("2024-05-01T13:00:00Z")));
    assert_eq!(hourly.next_after(at("2024-05-01T12:00:00.001Z")), Some(at("2024-05-01T13:00:00Z")));
    let range = hourly.fires_between(fire, at("2024-05-01T13:00:00Z"), 10).unwrap();
    assert_eq!(range, [fire], "the start is in the range, the end is not");
}

#[test]
fn fields_are_lists_ranges_steps_and_names() {
    let (from, to) = ("2024-01-01T00:00:00Z", "2024-03-01T00:00:00Z");
    assert_eq!(fires("0 12 L * *", "UTC", from, to), ["31T12:00:00", "29T12:00:00"]);
    assert_eq!(fires("0 0 1 feb ?", "UTC", from, to), ["01T00:00:00"]);
    assert_eq!(fires("5 4 3 2 *", "UTC", from, to), ["03T04:05:00"]);
    assert_eq!(fires("0 9 1-7 1 mon", "UTC", from, to).len(), 7 + 4, "either day is enough");
    assert_eq!(fires("0 0 * * 7", "UTC", from, to), fires("0 0 * * SUN", "UTC", from, to));
    assert_eq!(fires("0 0 * * fri-7", "UTC", from, to).len(), 3 * 8);
    let minutes = fires("20/20,3-4 7 1 1 *", "UTC", from, to);
    assert_eq!(minutes, ["01T07:03:00", "01T07:04:00", "01T07:20:00", "01T07:40:00"]);
    assert_eq!(fires("10,50 59 23 31 1 *", "UTC", from, to), ["31T23:59:10", "31T23:59:50"]);
    let leap = timing("0 0 29 2 *", "UTC").next_after(at("2096-03-01T00:00:00Z")).unwrap();
    assert_eq!(leap.year(), 2104);
    assert_eq!("@Weekly".parse::<Cron>().unwrap().to_string(), "0 0 * * 0");
}

#[test]
fn what_is_wrong_is_named_with_its_field() {
    assert_eq!(refusal("61 * * * *"), "minute '61' is not within 0 to 59");
    assert_eq!(refusal("0 24 * * *"), "hour '24' is not within 0 to 23");
    assert_eq!(refusal("0 0 0 * *"), "day of month '0' is not within 1 to 31");
    assert_eq!(refusal("0 0 1 mai *"), "month 'mai' is no number from 1 to 12, and no name of one");
    assert_eq!(
        refusal("0 0 * * fri-mon"),
        "day of week 'fri-mon' begins after it ends; write two ranges with a comma"
    );
    assert_eq!(refusal("*/0 * * * *"), "minute '*/0' has a step not within 1 to 59");
    assert_eq!(refusal("x * * * * *"), "second 'x' is no number from 0 to 59");
    assert_eq!(refusal("1,,2 * * * *"), "minute '' is no number from 0 to 59");
    assert_eq!(refusal("0 0 30 2 *"), "no month that it names has the day of month '30'");
    assert_eq!(refusal("0 0 31 4,6,9,11 *"), "no month that it names has the day of month '31'");
    assert!("0 0 30 2 mon".parse::<Cron>().is_ok(), "Mondays of February are days");
    assert!(refusal("* * *").starts_with("it has 3 fields; write five"));
    assert!(refusal("@reboot").starts_with("'@reboot' is not one of @yearly"));
    assert_eq!(refusal(&"1,".repeat(200)), "it has more than 255 bytes");
    let zone = Timing::read("0 0 * * *", "Europe/Berlinn").unwrap_err().to_string();
    let wanted =
        "timezone: there is no time zone 'Europe/Berlinn'; write one as Europe/Berlin, or UTC";
    assert_eq!(zone, wanted);
}

#[test]
fn a_range_with_too_many_fires_is_refused_with_their_count() {
    let (from, to) = (at("2024-01-01T00:00:00Z"), at("2024-01-02T00:00:00Z"));
    let refusal = timing("* * * * *", "UTC").fires_between(from, to, 1_000).unwrap_err();
    assert_eq!(refusal.to_string(), "1440 fires, more than 1000");
    let to = at("2025-01-01T00:00:00Z");
    let refusal = timing("* * * * * *", "UTC").fires_between(from, to, 1_000).unwrap_err();
    assert_eq!(refusal.to_string(), "over 100000 fires, more than 1000");
}
