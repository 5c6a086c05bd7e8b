//! Cron schedules: next and last scheduled time in the local time of a zone.
//!
//! A local time that is skipped never occurs; one that is repeated occurs twice.

use setpoint_api::Time;
use setpoint_api::kinds::batch::schedule::{CronFields, Schedule};

use super::time_zone::TimeZone;

const MINUTE: i64 = 60;
const HOUR: i64 = 3600;
const DAY: i64 = 86_400;
/// Search limit: a schedule without a time within five years has none.
const SEARCH_LIMIT: i64 = 5 * 366 * DAY;

/// Schedule in a time zone.
pub(super) struct ZonedSchedule {
    schedule: Schedule,
    zone: TimeZone,
}

impl ZonedSchedule {
    pub fn new(schedule: Schedule, zone: TimeZone) -> ZonedSchedule {
        ZonedSchedule { schedule, zone }
    }

    /// First scheduled time after `time`; `None` if there is none for years.
    pub fn next(&self, time: Time) -> Option<Time> {
        let now = unix_seconds(time);
        match &self.schedule {
            Schedule::Every(interval) => Some(Time::from_seconds(now + interval)),
            Schedule::Fields(fields) => self.next_match(fields, now).map(Time::from_seconds),
        }
    }

    fn next_match(&self, fields: &CronFields, now: i64) -> Option<i64> {
        let mut at = now - (now + self.zone.offset(now)).rem_euclid(MINUTE) + MINUTE;
        while at - now < SEARCH_LIMIT {
            let local = at + self.zone.offset(at);
            let of_day = local.rem_euclid(DAY);
            if !matches_day(fields, local.div_euclid(DAY)) {
                // The offset may change at night, so the last hours of a day are walked one by one.
                at += if of_day < 22 * HOUR { 22 * HOUR - of_day } else { HOUR - of_day % HOUR };
            } else if fields.hour & (1 << (of_day / HOUR)) == 0 {
                at += HOUR - of_day % HOUR;
            } else if fields.minute & (1 << (of_day % HOUR / MINUTE)) == 0 {
                at += MINUTE;
            } else {
                return Some(at);
            }
        }
        None
    }

    /// Last scheduled time after `since` and not after `now`, and `true` if more than a hundred were missed.
    pub fn most_recent(&self, since: Time, now: Time) -> Option<(Time, bool)> {
        let first = self.next(since).filter(|first| *first <= now)?;
        let Some(second) = self.next(first).filter(|second| *second <= now) else {
            return Some((first, false));
        };
        let gap = (unix_seconds(second) - unix_seconds(first)).max(1);
        let missed = (unix_seconds(now) - unix_seconds(first)) / gap + 1;
        // Intervals differ, so the search goes back further until it finds a time.
        let mut span = 2 * gap;
        let mut last = loop {
            let from = Time::from_seconds(unix_seconds(now) - span).max(first);
            match self.next(from).filter(|found| *found <= now) {
                Some(found) => break found,
                None if from == first => break first,
                None => span *= 2,
            }
        };
        while let Some(next) = self.next(last).filter(|next| *next <= now) {
            last = next;
        }
        Some((last, missed > 100))
    }
}

/// `true` if a schedule is due on a day, counted from the epoch.
fn matches_day(fields: &CronFields, day: i64) -> bool {
    let (_, month, of_month) = civil_from_days(day);
    let of_week = (day + 4).rem_euclid(7);
    if fields.month & (1 << month) == 0 {
        return false;
    }
    let month_fits = fields.day_of_month & (1 << of_month) != 0;
    let week_fits = fields.day_of_week & (1 << of_week) != 0;
    if fields.any_day_of_month || fields.any_day_of_week {
        month_fits && week_fits
    } else {
        month_fits || week_fits
    }
}

/// Year, month (1 to 12) and day of the month of a day since the epoch, in the proleptic Gregorian calendar.
pub(super) fn civil_from_days(day: i64) -> (i64, i64, i64) {
    // Years begin in March here, so the leap day is the last one.
    let (era, of_era) = ((day + 719_468).div_euclid(146_097), (day + 719_468).rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let month = if march < 10 { march + 3 } else { march - 9 };
    (era * 400 + year + i64::from(month <= 2), month, of_year - (153 * march + 2) / 5 + 1)
}

/// Day since the epoch of a date.
pub(super) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn unix_seconds(time: Time) -> i64 {
    time.0.div_euclid(1_000_000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use setpoint_api::rfc3339::{self, Seconds};

    use super::*;

    fn zoned(schedule: &str, zone: &str) -> ZonedSchedule {
        ZonedSchedule::new(Schedule::parse(schedule).unwrap(), TimeZone::find(Some(zone)).unwrap())
    }

    fn next(schedule: &str, zone: &str, after: &str) -> String {
        let next = zoned(schedule, zone).next(rfc3339::parse(after).unwrap());
        next.map_or("never".to_owned(), |time| Seconds(time).to_string())
    }

    #[test]
    fn schedules_are_due_at_the_expected_times() {
        for (schedule, after, due) in [
            ("*/5 * * * *", "2026-11-15T20:04:59Z", "2026-11-15T20:05:00Z"),
            ("*/5 * * * *", "2026-11-15T20:05:00Z", "2026-11-15T20:10:00Z"),
            ("0 0 * * 0", "2026-11-15T00:00:00Z", "2026-11-22T00:00:00Z"),
            ("0 0 29 2 *", "2026-11-15T20:05:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 30 2 *", "2026-11-15T20:05:00Z", "never"),
            ("30 4 1,15 * 5", "2026-11-15T20:05:00Z", "2026-11-20T04:30:00Z"),
            ("0 12 31 12 *", "2026-12-31T12:00:00Z", "2027-12-31T12:00:00Z"),
            ("@every 90s", "2026-11-15T20:05:01Z", "2026-11-15T20:06:31Z"),
        ] {
            assert_eq!(next(schedule, "UTC", after), due, "{schedule}");
        }
    }

    #[test]
    fn schedules_follow_local_time() {
        for (schedule, zone, after, due) in [
            ("0 9 * * *", "Europe/Berlin", "2026-07-01T00:00:00Z", "2026-07-01T07:00:00Z"),
            ("0 9 * * *", "Europe/Berlin", "2026-12-01T00:00:00Z", "2026-12-01T08:00:00Z"),
            // The hour from two to three is skipped.
            ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z"),
            // It occurs twice.
            ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"),
            ("0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", "2018-11-05T02:00:00Z"),
            ("15 10 * * *", "Asia/Kathmandu", "2026-11-15T00:00:00Z", "2026-11-15T04:30:00Z"),
        ] {
            assert_eq!(next(schedule, zone, after), due, "{schedule} in {zone} after {after}");
        }
        let time = rfc3339::parse("2026-07-01T07:00:00Z").unwrap();
        let formatted = |zone: &str| TimeZone::find(Some(zone)).unwrap().format(time);
        assert_eq!(formatted("Europe/Berlin"), "2026-07-01T09:00:00+02:00");
        assert_eq!(formatted("America/St_Johns"), "2026-07-01T04:30:00-02:30");
        assert_eq!(formatted("UTC"), "2026-07-01T07:00:00Z");
    }

    proptest! {
        #[test]
        fn days_and_dates_map_one_to_one(day in -1_000_000i64..1_000_000) {
            let (year, month, of_month) = civil_from_days(day);
            prop_assert!((1..=12).contains(&month) && (1..=31).contains(&of_month));
            prop_assert_eq!(days_from_civil(year, month, of_month), day);
        }

        #[test]
        fn last_scheduled_time_precedes_the_next(
            schedule in "(\\*|\\*/7|3|59) (\\*|5|\\*/6) (\\*|13) (\\*|2) (\\*|5)",
            zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/New_York"]),
            since in 1_790_000_000i64..1_830_000_000,
            span in 1i64..20_000_000,
        ) {
            let clock = zoned(&schedule, zone);
            let (since, now) = (Time::from_seconds(since), Time::from_seconds(since + span));
            match clock.most_recent(since, now) {
                None => prop_assert!(clock.next(since).is_none_or(|next| next > now)),
                Some((last, _)) => {
                    prop_assert!(since < last && last <= now);
                    prop_assert!(clock.next(last).is_none_or(|next| next > now));
                }
            }
        }
    }
}
