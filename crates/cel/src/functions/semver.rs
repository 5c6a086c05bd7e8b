//! Semantic versions.

use super::{Call, Function, Returned};
use crate::eval::EvalError;
use crate::runtime_cost::CostRule;
use crate::value::{Opaque, SemanticVersion, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("isSemver", is_semver, CostRule::Scan { times: 1 }),
    Function::new("major", |call| part(call, |version| version.major), CostRule::Call),
    Function::new("minor", |call| part(call, |version| version.minor), CostRule::Call),
    Function::new("patch", |call| part(call, |version| version.patch), CostRule::Call),
    Function::new("semver", semver, CostRule::Scan { times: 1 }),
];

fn semver<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let version = parse_argument(call)?.map_err(EvalError::new)?;
    Ok(Value::opaque(Opaque::Semver(version)))
}

fn is_semver<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    Ok(Value::Bool(parse_argument(call)?.is_ok()))
}

/// Parses the first argument; the second, if it is true, makes the parser lenient.
fn parse_argument(call: &Call<'_, '_>) -> Result<Result<SemanticVersion, String>, EvalError> {
    let text = call.text(0)?;
    let is_lenient = match call.args.get(1) {
        Some(value) => value.as_bool().ok_or(EvalError::NO_SUCH_OVERLOAD)?,
        None => false,
    };
    Ok(if is_lenient { normalize(text).and_then(|text| parse(&text)) } else { parse(text) })
}

fn part<'a>(call: &mut Call<'_, 'a>, read: fn(&SemanticVersion) -> u64) -> Returned<'a> {
    match call.opaque(0)? {
        Opaque::Semver(version) => Ok(Value::Int(i64::try_from(read(version)).unwrap_or(i64::MAX))),
        _ => Err(EvalError::NO_SUCH_OVERLOAD),
    }
}

/// Removes a `v` and leading zeros, and adds a missing minor and patch version.
fn normalize(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(strip_zeros).collect();
    if parts.len() < 3 {
        if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err("short version cannot contain PreRelease/Build meta data".into());
        }
        parts.resize(3, "0".into());
    }
    Ok(parts.join("."))
}

fn strip_zeros(part: &str) -> String {
    if part.len() <= 1 {
        return part.to_owned();
    }
    let stripped = part.trim_start_matches('0');
    if stripped.starts_with(|first: char| first.is_ascii_digit()) {
        stripped.to_owned()
    } else {
        format!("0{stripped}")
    }
}

/// Parses a semantic version.
pub(crate) fn parse(text: &str) -> Result<SemanticVersion, String> {
    if text.is_empty() {
        return Err("Version string empty".into());
    }
    let mut parts = text.splitn(3, '.');
    let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("No Major.Minor.Patch elements found".into());
    };
    let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
    let (patch, pre_release) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
    Ok(SemanticVersion {
        major: number(major, "Major")?,
        minor: number(minor, "Minor")?,
        patch: number(patch, "Patch")?,
        pre_release: identifiers(pre_release, "Prerelease", true)?,
        build: identifiers(build, "Build meta data", false)?,
    })
}

fn number(text: &str, name: &str) -> Result<u64, String> {
    if !text.bytes().all(|digit| digit.is_ascii_digit()) || text.is_empty() {
        return Err(format!("Invalid character(s) found in {} number \"{text}\"", name.to_lowercase()));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{name} number must not contain leading zeroes \"{text}\""));
    }
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing \"{text}\": value out of range"))
}

fn identifiers(text: Option<&str>, name: &str, is_ordered: bool) -> Result<Box<[Box<str>]>, String> {
    let Some(text) = text else { return Ok(Box::default()) };
    text.split('.')
        .map(|identifier| {
            if identifier.is_empty() {
                return Err(format!("{name} is empty"));
            }
            if !identifier.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
                return Err(format!(
                    "Invalid character(s) found in {} \"{identifier}\"",
                    name.to_lowercase()
                ));
            }
            let is_numeric = identifier.bytes().all(|byte| byte.is_ascii_digit());
            if is_ordered && is_numeric && identifier.len() > 1 && identifier.starts_with('0') {
                return Err(format!(
                    "Numeric PreRelease version must not contain leading zeroes \"{identifier}\""
                ));
            }
            Ok(identifier.into())
        })
        .collect()
}
