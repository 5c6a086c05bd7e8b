//! Named formats of strings.

use setpoint_api::names::{Faults, NameRule, key};
use setpoint_api::quote::Quoted;

use super::{Call, Function, Returned, url};
use crate::eval::EvalError;
use crate::runtime_cost::CostRule;
use crate::value::{NamedFormat, Opaque, Timestamp, Value, decode_base64};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("format.byte", |_| constant("byte"), CostRule::Call),
    Function::new("format.date", |_| constant("date"), CostRule::Call),
    Function::new("format.datetime", |_| constant("datetime"), CostRule::Call),
    Function::new("format.dns1035Label", |_| constant("dns1035Label"), CostRule::Call),
    Function::new("format.dns1035LabelPrefix", |_| constant("dns1035LabelPrefix"), CostRule::Call),
    Function::new("format.dns1123Label", |_| constant("dns1123Label"), CostRule::Call),
    Function::new("format.dns1123LabelPrefix", |_| constant("dns1123LabelPrefix"), CostRule::Call),
    Function::new("format.dns1123Subdomain", |_| constant("dns1123Subdomain"), CostRule::Call),
    Function::new("format.dns1123SubdomainPrefix", |_| constant("dns1123SubdomainPrefix"), CostRule::Call),
    Function::new("format.labelValue", |_| constant("labelValue"), CostRule::Call),
    Function::new("format.named", named, CostRule::Call),
    Function::new("format.qualifiedName", |_| constant("qualifiedName"), CostRule::Call),
    Function::new("format.uri", |_| constant("uri"), CostRule::Call),
    Function::new("format.uuid", |_| constant("uuid"), CostRule::Call),
    Function::new("validate", validate, CostRule::Validate),
];

static FORMATS: [NamedFormat; 13] = [
    NamedFormat { name: "dns1123Label", pattern_length: 30, check: |text| name(NameRule::Label, text) },
    NamedFormat {
        name: "dns1123Subdomain",
        pattern_length: 60,
        check: |text| name(NameRule::Subdomain, text),
    },
    NamedFormat {
        name: "dns1035Label",
        pattern_length: 30,
        check: |text| name(NameRule::Dns1035Label, text),
    },
    NamedFormat { name: "qualifiedName", pattern_length: 60, check: |text| owned(key::label_key(text)) },
    NamedFormat {
        name: "dns1123LabelPrefix",
        pattern_length: 30,
        check: |text| prefix(NameRule::Label, text),
    },
    NamedFormat {
        name: "dns1123SubdomainPrefix",
        pattern_length: 60,
        check: |text| prefix(NameRule::Subdomain, text),
    },
    NamedFormat {
        name: "dns1035LabelPrefix",
        pattern_length: 30,
        check: |text| prefix(NameRule::Dns1035Label, text),
    },
    NamedFormat { name: "labelValue", pattern_length: 40, check: |text| owned(key::label_value(text)) },
    NamedFormat {
        name: "uri",
        pattern_length: 1103,
        check: |text| match url::parse(text) {
            Ok(_) => Vec::new(),
            Err(reason) => vec![format!("parse {}: {reason}", Quoted(text))],
        },
    },
    NamedFormat {
        name: "uuid",
        pattern_length: 84,
        check: |text| fault(is_uuid(text), "does not match the UUID format"),
    },
    NamedFormat {
        name: "byte",
        pattern_length: 84,
        check: |text| fault(!text.is_empty() && decode_base64(text).is_some(), "invalid base64"),
    },
    NamedFormat {
        name: "date",
        pattern_length: 83,
        check: |text| fault(Timestamp::parse_date(text).is_some(), "invalid date"),
    },
    NamedFormat {
        name: "datetime",
        pattern_length: 83,
        check: |text| fault(Timestamp::parse(&text.to_ascii_uppercase()).is_some(), "invalid datetime"),
    },
];

fn owned(faults: Faults) -> Vec<String> {
    faults.into_iter().map(Into::into).collect()
}

fn name(rule: NameRule, text: &str) -> Vec<String> {
    owned(rule.check(text))
}

/// Checks a prefix of a name, whose trailing dash and the character before it count as one letter.
fn prefix(rule: NameRule, text: &str) -> Vec<String> {
    match text.strip_suffix('-') {
        Some(stem) if !stem.is_empty() => {
            let end = stem.char_indices().next_back().map_or(0, |(index, _)| index);
            name(rule, &format!("{}a", &stem[..end]))
        }
        _ => name(rule, text),
    }
}

fn fault(is_valid: bool, message: &str) -> Vec<String> {
    if is_valid { Vec::new() } else { vec![message.to_owned()] }
}

/// `true` for groups of 8, 4, 4, 4 and 12 hexadecimal digits, each with an optional dash before it.
fn is_uuid(text: &str) -> bool {
    let mut rest = text.as_bytes();
    for (index, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix(b"-").unwrap_or(rest);
        }
        match rest.split_at_checked(length) {
            Some((group, next)) if group.iter().all(u8::is_ascii_hexdigit) => rest = next,
            _ => return false,
        }
    }
    rest.is_empty()
}

fn lookup(name: &str) -> Option<Value<'static>> {
    let format = FORMATS.iter().find(|format| format.name == name)?;
    Some(Value::opaque(Opaque::Format(format)))
}

fn constant<'a>(name: &str) -> Returned<'a> {
    lookup(name).ok_or(EvalError::NO_SUCH_OVERLOAD)
}

fn named<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    Ok(Value::optional(lookup(call.text(0)?)))
}

fn validate<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let Opaque::Format(format) = call.opaque(0)? else { return Err(EvalError::NO_SUCH_OVERLOAD) };
    let faults = (format.check)(call.text(1)?);
    if faults.is_empty() {
        return Ok(Value::Optional(None));
    }
    Ok(Value::optional(Some(call.strings(faults.into_iter())?)))
}
