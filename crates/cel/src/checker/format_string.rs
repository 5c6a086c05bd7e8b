//! Format strings of `string.format`: number and types of the arguments.

use crate::ast::{Ast, Element, ExprId, ExprKind};
use crate::types::Type;

/// Literal arguments of a format string.
pub(super) struct FormatCheck<'a> {
    pub(super) ast: &'a Ast,
    pub(super) types: &'a [Option<Type>],
    pub(super) arguments: &'a [Element],
}

/// Argument at fault, or `None` for the whole call, and the message.
type Fault = (Option<ExprId>, String);

fn fault<T>(message: impl Into<String>) -> Result<T, Fault> {
    Err((None, message.into()))
}

impl FormatCheck<'_> {
    /// Checks that a format string fits its arguments.
    pub(super) fn check(&self, format: &str) -> Result<(), Fault> {
        let mut used = 0;
        let mut rest = format;
        while let Some(at) = rest.find('%') {
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('%') {
                rest = after;
                continue;
            }
            if rest.is_empty() {
                return fault("unexpected end of string");
            }
            let Some(argument) = self.arguments.get(used) else {
                return fault(format!("index {used} out of range"));
            };
            used += 1;
            rest = self.check_clause(rest, argument.value)?;
        }
        let given = self.arguments.len();
        if given > used {
            return fault(format!(
                "too many arguments supplied to string.format (expected {used}, got {given})"
            ));
        }
        Ok(())
    }

    /// Checks the clause at the start of `text`, and returns the text after it.
    fn check_clause<'t>(&self, text: &'t str, argument: ExprId) -> Result<&'t str, Fault> {
        let text = skip_precision(text).map_err(|cause| {
            (None, format!("could not parse formatting clause: error while parsing precision: {cause}"))
        })?;
        let clause = text.chars().next().unwrap_or_default();
        let is_kind = |kinds: fn(&Type) -> bool| {
            let ty = self.type_of(argument);
            matches!(ty, Type::Dyn | Type::Any) || kinds(ty)
        };
        let is_integer: fn(&Type) -> bool = |ty| matches!(ty, Type::Int | Type::Uint);
        let is_double: fn(&Type) -> bool = |ty| matches!(ty, Type::Double | Type::String);
        let (is_valid, subject) = match clause {
            's' => return self.check_string(argument).map(|()| &text[1..]),
            'd' => (is_kind(is_integer), "decimal clause can only be used on integers"),
            'o' => (is_kind(is_integer), "octal clause can only be used on integers"),
            'f' => (is_kind(is_double), "fixed-point clause can only be used on doubles"),
            'e' => (is_kind(is_double), "scientific clause can only be used on doubles"),
            'b' => {
                let is_binary: fn(&Type) -> bool = |ty| matches!(ty, Type::Int | Type::Uint | Type::Bool);
                (is_kind(is_binary), "only integers and bools can be formatted as binary")
            }
            'x' | 'X' => {
                let is_hex: fn(&Type) -> bool =
                    |ty| matches!(ty, Type::Int | Type::Uint | Type::String | Type::Bytes);
                (is_kind(is_hex), "only integers, byte buffers, and strings can be formatted as hex")
            }
            other => {
                // cel-go reads one byte, and shows it as a code point.
                let other = char::from(other.to_string().as_bytes()[0]);
                return fault(format!(
                    "could not parse formatting clause: unrecognized formatting clause \"{other}\""
                ));
            }
        };
        if is_valid { Ok(&text[1..]) } else { self.type_fault(argument, subject) }
    }

    fn type_of(&self, id: ExprId) -> &Type {
        self.types[id.index()].as_ref().unwrap_or(&Type::Dyn)
    }

    fn type_fault<T>(&self, argument: ExprId, subject: &str) -> Result<T, Fault> {
        let name = self.type_of(argument).name();
        Err((Some(argument), format!("error during formatting: {subject}, was given {name}")))
    }

    /// Checks an argument of `%s`, and the elements of literals within it.
    fn check_string(&self, argument: ExprId) -> Result<(), Fault> {
        let is_opaque =
            matches!(self.type_of(argument), Type::Optional(_) | Type::Opaque(_) | Type::Object(_));
        if is_opaque || *self.type_of(argument) == Type::Error {
            return self.type_fault(
                argument,
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, \
                 durations, and timestamps",
            );
        }
        match &self.ast.expr(argument).kind {
            ExprKind::List(elements) => {
                elements.iter().try_for_each(|element| self.check_string(element.value))
            }
            ExprKind::Map(entries) => entries.iter().try_for_each(|entry| {
                self.check_string(entry.key)?;
                self.check_string(entry.value)
            }),
            _ => Ok(()),
        }
    }
}

/// Skips `.` and digits; returns the cause if the precision is invalid.
fn skip_precision(text: &str) -> Result<&str, String> {
    let Some(digits) = text.strip_prefix('.') else { return Ok(text) };
    let rest = digits.trim_start_matches(|digit: char| digit.is_ascii_digit());
    if rest.is_empty() {
        return Err("could not find end of precision specifier".to_owned());
    }
    let number = &digits[..digits.len() - rest.len()];
    let cause = match number.parse::<i64>() {
        Ok(_) => return Ok(rest),
        Err(_) if number.is_empty() => "invalid syntax",
        Err(_) => "value out of range",
    };
    Err(format!("error while converting precision to integer: strconv.Atoi: parsing \"{number}\": {cause}"))
}
