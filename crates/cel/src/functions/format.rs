//! `format` of strings: clauses such as `%s`, `%d`, `%.2f`, `%e`, `%b`, `%x` and `%o`.

use super::{Call, Function, Returned};
use crate::eval::EvalError;
use crate::runtime_cost::{CostRule, Meter};
use crate::value::{Value, double_to_text};

pub(super) const FUNCTIONS: &[Function] = &[Function::new("format", format, CostRule::Scan { times: 1 })];

/// Largest precision of a clause.
const PRECISION_MAX: usize = 1_000;
/// Precision of `%f` and `%e` without one.
const PRECISION_DEFAULT: usize = 6;
/// Exponent from which `%s` prints doubles with one.
const EXPONENT_FROM: i32 = 6;
/// Largest nesting of lists and maps that `%s` prints.
const NESTING_MAX: usize = 64;

/// Text under construction, whose length the meter bounds.
struct Formatter<'m> {
    out: String,
    meter: &'m mut Meter,
}

fn format<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let (text, args) = (call.text(0)?, call.list(1)?);
    let mut formatter = Formatter { out: String::new(), meter: call.meter };
    let mut rest = text;
    let mut index = 0;
    while let Some(at) = rest.find('%') {
        formatter.push(&rest[..at])?;
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            formatter.push("%")?;
            rest = after;
            continue;
        }
        if rest.is_empty() {
            return Err(EvalError::constant("unexpected end of string"));
        }
        let argument = match args.get(index) {
            Some(argument) => argument?,
            None => return Err(EvalError::new(format!("index {index} out of range"))),
        };
        index += 1;
        let (precision, after) = precision(rest)?;
        let Some(clause) = after.chars().next() else {
            return Err(EvalError::constant("could not find end of precision specifier"));
        };
        formatter.clause(clause, precision, &argument)?;
        rest = &after[clause.len_utf8()..];
    }
    formatter.push(rest)?;
    Ok(Value::string(formatter.out))
}

/// Parses `.3` before a clause.
fn precision(text: &str) -> Result<(Option<usize>, &str), EvalError> {
    let Some(after) = text.strip_prefix('.') else { return Ok((None, text)) };
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = after.split_at(digits);
    let precision = number.parse::<usize>().map_err(|_| {
        EvalError::constant("error while parsing precision: error while converting precision to integer")
    })?;
    if precision > PRECISION_MAX {
        return Err(EvalError::new(format!(
            "error while parsing precision: precision {precision} exceeds maximum allowed precision {PRECISION_MAX}"
        )));
    }
    Ok((Some(precision), rest))
}

impl Formatter<'_> {
    fn push(&mut self, text: &str) -> Result<(), EvalError> {
        self.meter.allocate(text.len() + 32)?;
        self.out.push_str(text);
        Ok(())
    }

    fn clause(&mut self, clause: char, precision: Option<usize>, value: &Value<'_>) -> Result<(), EvalError> {
        let digits = precision.unwrap_or(PRECISION_DEFAULT);
        let text = match clause {
            's' => return self.value(value, NESTING_MAX, false),
            'd' => match value {
                Value::Int(number) => number.to_string(),
                Value::Uint(number) => number.to_string(),
                _ => return mismatch("decimal clause can only be used on integers", value),
            },
            'f' => match double_of(value) {
                Some(number) if number.is_finite() => grouped(&format!("{number:.digits$}")),
                Some(number) => special(number),
                None => return mismatch("fixed-point clause can only be used on doubles", value),
            },
            'e' => match double_of(value) {
                Some(number) if number.is_finite() => padded(scientific(number), precision),
                Some(number) => padded(special(number), precision),
                None => return mismatch("scientific clause can only be used on doubles", value),
            },
            'b' => match value {
                Value::Int(number) => signed(*number, |magnitude| format!("{magnitude:b}")),
                Value::Uint(number) => format!("{number:b}"),
                Value::Bool(truth) => u8::from(*truth).to_string(),
                _ => return mismatch("only integers and bools can be formatted as binary", value),
            },
            'o' => match value {
                Value::Int(number) => signed(*number, |magnitude| format!("{magnitude:o}")),
                Value::Uint(number) => format!("{number:o}"),
                _ => return mismatch("octal clause can only be used on integers", value),
            },
            'x' | 'X' => {
                let text = self.hexadecimal(value)?;
                if clause == 'X' { text.to_ascii_uppercase() } else { text }
            }
            other => {
                return Err(EvalError::new(format!(
                    "could not parse formatting clause: unrecognized formatting clause \"{other}\""
                )));
            }
        };
        self.push(&text)
    }

    fn hexadecimal(&mut self, value: &Value<'_>) -> Result<String, EvalError> {
        use std::fmt::Write as _;
        let bytes = match value {
            Value::Int(number) => return Ok(signed(*number, |magnitude| format!("{magnitude:x}"))),
            Value::Uint(number) => return Ok(format!("{number:x}")),
            Value::String(text) => text.as_bytes(),
            Value::Bytes(bytes) => bytes,
            _ => return mismatch("only integers, byte buffers, and strings can be formatted as hex", value),
        };
        self.meter.allocate(bytes.len() * 2)?;
        let mut text = String::with_capacity(bytes.len() * 2);
        for byte in bytes {
            write!(text, "{byte:02x}").expect("writing to a String cannot fail");
        }
        Ok(text)
    }

    /// Prints a value for `%s`; strings within lists and maps are quoted.
    fn value(&mut self, value: &Value<'_>, nesting: usize, is_nested: bool) -> Result<(), EvalError> {
        let nesting = nesting.checked_sub(1).ok_or(EvalError::constant("value is nested too deeply"))?;
        match value {
            Value::String(text) if is_nested => self.push(&setpoint_api::quote::Quoted(text).to_string()),
            Value::Timestamp(time) if is_nested => self.push(&format!("timestamp(\"{}\")", time.to_text())),
            Value::Duration(duration) if is_nested => {
                self.push(&format!("duration(\"{}\")", duration.to_text()))
            }
            Value::Null
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::String(_)
            | Value::Type(_)
            | Value::Timestamp(_)
            | Value::Duration(_) => self.push(&value.to_string()),
            Value::Double(number) if !is_nested => self.push(&double_to_text(*number, EXPONENT_FROM)),
            Value::Double(number) if number.is_finite() => {
                self.push(&format!("{number:.PRECISION_DEFAULT$}"))
            }
            Value::Double(number) => self.push(&format!("\"{}\"", double_to_text(*number, EXPONENT_FROM))),
            Value::Bytes(bytes) if is_nested => {
                let text = String::from_utf8_lossy(bytes);
                self.push(&format!("b{}", setpoint_api::quote::Quoted(&text)))
            }
            Value::Bytes(bytes) => self.push(&String::from_utf8_lossy(bytes)),
            Value::List(list) => {
                self.push("[")?;
                for (index, element) in list.iter().enumerate() {
                    self.push(if index > 0 { ", " } else { "" })?;
                    self.value(&element?, nesting, true)?;
                }
                self.push("]")
            }
            Value::Map(map) => {
                self.push("{")?;
                for (index, key) in map.keys().iter().enumerate() {
                    self.push(if index > 0 { ", " } else { "" })?;
                    self.value(key, nesting, true)?;
                    self.push(":")?;
                    if let Some(value) = map.find(key) {
                        self.value(&value?, nesting, true)?;
                    }
                }
                self.push("}")
            }
            _ => mismatch(
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, \
                 durations, and timestamps",
                value,
            ),
        }
    }
}

fn mismatch<T>(rule: &str, value: &Value<'_>) -> Result<T, EvalError> {
    Err(EvalError::new(format!("error during formatting: {rule}, was given {}", value.type_name())))
}

fn double_of(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn special(number: f64) -> String {
    if number.is_nan() {
        return "NaN".into();
    }
    if number > 0.0 { "\u{221e}".into() } else { "-\u{221e}".into() }
}

/// Separates the thousands by commas: cel-go formats for the English language.
fn grouped(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut out = String::from(sign);
    for (index, digit) in whole.char_indices() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + fraction
}

/// Prints the exponent in superscript digits, at least two. Cel-go ignores the precision here.
fn scientific(number: f64) -> String {
    const DIGITS: [char; 10] = [
        '\u{2070}', '\u{b9}', '\u{b2}', '\u{b3}', '\u{2074}', '\u{2075}', '\u{2076}', '\u{2077}', '\u{2078}',
        '\u{2079}',
    ];
    let text = format!("{number:.PRECISION_DEFAULT$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(("", exponent), |rest| ("\u{207b}", rest));
    let exponent = format!("{exponent:0>2}");
    let digits: String =
        exponent.bytes().map(|byte| DIGITS[usize::from(byte.saturating_sub(b'0')) % 10]).collect();
    format!("{mantissa}\u{d7}10{sign}{digits}")
}

/// Pads a text to a width: cel-go takes the precision of `%e` for one.
fn padded(text: String, width: Option<usize>) -> String {
    let width = width.unwrap_or(PRECISION_DEFAULT);
    format!("{text:>width$}")
}

fn signed(number: i64, write: fn(u64) -> String) -> String {
    let magnitude = write(number.unsigned_abs());
    if number < 0 { format!("-{magnitude}") } else { magnitude }
}
