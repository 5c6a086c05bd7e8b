//! Parts of timestamps and durations.

use super::Signature;

pub(super) const FUNCTIONS: &[Signature] = &[
    ("getFullYear", "timestamp_to_year", "timestamp.() -> int"),
    ("getFullYear", "timestamp_to_year_with_tz", "timestamp.(string) -> int"),
    ("getMonth", "timestamp_to_month", "timestamp.() -> int"),
    ("getMonth", "timestamp_to_month_with_tz", "timestamp.(string) -> int"),
    ("getDayOfYear", "timestamp_to_day_of_year", "timestamp.() -> int"),
    ("getDayOfYear", "timestamp_to_day_of_year_with_tz", "timestamp.(string) -> int"),
    ("getDayOfMonth", "timestamp_to_day_of_month", "timestamp.() -> int"),
    ("getDayOfMonth", "timestamp_to_day_of_month_with_tz", "timestamp.(string) -> int"),
    ("getDate", "timestamp_to_day_of_month_1_based", "timestamp.() -> int"),
    ("getDate", "timestamp_to_day_of_month_1_based_with_tz", "timestamp.(string) -> int"),
    ("getDayOfWeek", "timestamp_to_day_of_week", "timestamp.() -> int"),
    ("getDayOfWeek", "timestamp_to_day_of_week_with_tz", "timestamp.(string) -> int"),
    ("getHours", "timestamp_to_hours", "timestamp.() -> int"),
    ("getHours", "timestamp_to_hours_with_tz", "timestamp.(string) -> int"),
    ("getHours", "duration_to_hours", "duration.() -> int"),
    ("getMinutes", "timestamp_to_minutes", "timestamp.() -> int"),
    ("getMinutes", "timestamp_to_minutes_with_tz", "timestamp.(string) -> int"),
    ("getMinutes", "duration_to_minutes", "duration.() -> int"),
    ("getSeconds", "timestamp_to_seconds", "timestamp.() -> int"),
    ("getSeconds", "timestamp_to_seconds_tz", "timestamp.(string) -> int"),
    ("getSeconds", "duration_to_seconds", "duration.() -> int"),
    ("getMilliseconds", "timestamp_to_milliseconds", "timestamp.() -> int"),
    ("getMilliseconds", "timestamp_to_milliseconds_with_tz", "timestamp.(string) -> int"),
    ("getMilliseconds", "duration_to_milliseconds", "duration.() -> int"),
];
