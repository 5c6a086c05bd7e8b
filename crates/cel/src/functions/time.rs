//! Accessors of timestamps and durations.

use super::{Call, Function, Returned};
use crate::eval::EvalError;
use crate::runtime_cost::CostRule;
use crate::value::{CivilTime, Timestamp, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("getDate", |call| calendar(call, |at| at.day), CostRule::Call),
    Function::new("getDayOfMonth", |call| calendar(call, |at| at.day - 1), CostRule::Call),
    Function::new("getDayOfWeek", |call| calendar(call, |at| at.day_of_week), CostRule::Call),
    Function::new("getDayOfYear", |call| calendar(call, |at| at.day_of_year), CostRule::Call),
    Function::new("getFullYear", |call| calendar(call, |at| at.year), CostRule::Call),
    Function::new("getHours", |call| clock(call, |at| at.hour, 3_600_000_000_000), CostRule::Call),
    Function::new(
        "getMilliseconds",
        |call| clock(call, |at| i64::from(at.nanos) / 1_000_000, 1_000_000),
        CostRule::Call,
    ),
    Function::new("getMinutes", |call| clock(call, |at| at.minute, 60_000_000_000), CostRule::Call),
    Function::new("getMonth", |call| calendar(call, |at| at.month - 1), CostRule::Call),
    Function::new("getSeconds", |call| clock(call, |at| at.second, 1_000_000_000), CostRule::Call),
];

/// Returns a field of a timestamp, in the time zone of the second argument or in UTC.
fn calendar<'a>(call: &mut Call<'_, 'a>, field: fn(CivilTime) -> i64) -> Returned<'a> {
    let Value::Timestamp(time) = call.arg(0)? else { return Err(EvalError::NO_SUCH_OVERLOAD) };
    let offset = if call.args.len() > 1 { offset(*time, call.text(1)?)? } else { 0 };
    Ok(Value::Int(field(time.in_zone(offset))))
}

/// Returns a field of a timestamp, or the whole number of units of a duration.
fn clock<'a>(call: &mut Call<'_, 'a>, field: fn(CivilTime) -> i64, unit_nanos: i64) -> Returned<'a> {
    match (call.arg(0)?, call.args.len()) {
        (Value::Duration(duration), 1) => Ok(Value::Int(duration.0 / unit_nanos)),
        _ => calendar(call, field),
    }
}

/// Returns the offset in seconds of a zone: a name of the IANA database, or `+01:30`.
fn offset(time: Timestamp, zone: &str) -> Result<i64, EvalError> {
    let Some((hours, minutes)) = zone.split_once(':') else {
        return time.offset_in(zone).ok_or_else(|| EvalError::new(format!("unknown time zone {zone}")));
    };
    let number = |text: &str| {
        text.parse::<i32>().map(i64::from).map_err(|_| {
            let text = setpoint_api::quote::Quoted(text);
            EvalError::new(format!("strconv.Atoi: parsing {text}: invalid syntax"))
        })
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let total = if zone.starts_with('-') { hours * 60 - minutes } else { hours * 60 + minutes };
    Ok(total * 60)
}
