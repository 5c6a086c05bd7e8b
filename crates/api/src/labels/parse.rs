//! Label selector parser with upstream's error texts.

use std::collections::BTreeSet;

use thiserror::Error;

use super::{Operator, Requirement};
use crate::field_error::{ErrorList, FieldError, Path};
use crate::names::key::label_key;

/// Syntax error of a label selector.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ParseError {
    /// Unexpected token at the beginning or end of a requirement.
    #[error("found '{found}', expected: {expected}")]
    Unexpected {
        /// Offending token.
        found: Box<str>,
        /// Tokens that are allowed instead.
        expected: &'static str,
    },
    /// Invalid requirement.
    #[error("unable to parse requirement: {0}")]
    Requirement(#[from] RequirementError),
}

/// Error in one requirement.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum RequirementError {
    /// Unexpected token.
    #[error("found '{found}', expected: {expected}")]
    Unexpected {
        /// Offending token.
        found: Box<str>,
        /// Tokens that are allowed instead.
        expected: &'static str,
    },
    /// `in` or `notin` without a list.
    #[error("found '{0}' expected: '('")]
    NoList(Box<str>),
    /// The key is not a valid label key.
    #[error("{0}")]
    Key(Box<FieldError>),
    /// The values are not valid for key and operator.
    #[error("{0}")]
    Invalid(ErrorList),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    End,
    Word,
    In,
    NotIn,
    Open,
    Close,
    Comma,
    Not,
    Equals,
    DoubleEquals,
    NotEquals,
    Greater,
    Less,
}

#[derive(Clone, Copy)]
struct Token<'a> {
    kind: Kind,
    text: &'a str,
}

impl<'a> Token<'a> {
    /// The token as a value: there, `in` and `notin` are ordinary words.
    fn as_value(self) -> Token<'a> {
        match self.kind {
            Kind::In | Kind::NotIn => Token { kind: Kind::Word, ..self },
            _ => self,
        }
    }

    fn unexpected(self, expected: &'static str) -> RequirementError {
        RequirementError::Unexpected { found: self.text.into(), expected }
    }
}

/// Tokenizer with one token of lookahead.
struct Lexer<'a> {
    rest: &'a str,
    next: Token<'a>,
}

impl<'a> Lexer<'a> {
    fn new(text: &'a str) -> Lexer<'a> {
        let mut lexer = Lexer { rest: text, next: Token { kind: Kind::Comma, text: "" } };
        lexer.take();
        lexer
    }

    /// Consumes the next token.
    fn take(&mut self) -> Token<'a> {
        let token = self.next;
        if token.kind != Kind::End {
            self.next = self.scan();
        }
        token
    }

    fn scan(&mut self) -> Token<'a> {
        self.rest = self.rest.trim_start_matches(is_space);
        let kind = match self.rest.as_bytes() {
            // A NUL byte ends the selector, except directly after a token, which it only ends.
            [] | [0, ..] => return Token { kind: Kind::End, text: "" },
            [b'!', b'=', ..] => Kind::NotEquals,
            [b'=', b'=', ..] => Kind::DoubleEquals,
            [b'!', ..] => Kind::Not,
            [b'=', ..] => Kind::Equals,
            [b'>', ..] => Kind::Greater,
            [b'<', ..] => Kind::Less,
            [b'(', ..] => Kind::Open,
            [b')', ..] => Kind::Close,
            [b',', ..] => Kind::Comma,
            _ => return self.scan_word(),
        };
        let length = if matches!(kind, Kind::NotEquals | Kind::DoubleEquals) { 2 } else { 1 };
        Token { kind, text: self.cut(length) }
    }

    fn scan_word(&mut self) -> Token<'a> {
        let ends = |c: char| is_space(c) || matches!(c, '\0' | '=' | '!' | '(' | ')' | ',' | '>' | '<');
        let text = self.cut(self.rest.find(ends).unwrap_or(self.rest.len()));
        let kind = match text {
            "in" => Kind::In,
            "notin" => Kind::NotIn,
            _ => Kind::Word,
        };
        Token { kind, text }
    }

    fn cut(&mut self, length: usize) -> &'a str {
        let (text, rest) = self.rest.split_at(length);
        self.rest = rest.strip_prefix('\0').unwrap_or(rest);
        text
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, ParseError> {
    let mut lexer = Lexer::new(text);
    let mut requirements = Vec::new();
    loop {
        let first = lexer.next.as_value();
        match first.kind {
            Kind::Word | Kind::Not => requirements.push(parse_requirement(&mut lexer)?),
            Kind::End => return Ok(requirements),
            _ => return Err(unexpected(first, "!, identifier, or 'end of string'")),
        }
        let end = lexer.take();
        match end.kind {
            Kind::End => return Ok(requirements),
            Kind::Comma => {
                let next = lexer.next.as_value();
                if !matches!(next.kind, Kind::Word | Kind::Not) {
                    return Err(unexpected(next, "identifier after ','"));
                }
            }
            _ => return Err(unexpected(end, "',' or 'end of string'")),
        }
    }
}

fn unexpected(token: Token<'_>, expected: &'static str) -> ParseError {
    ParseError::Unexpected { found: token.text.into(), expected }
}

fn parse_requirement(lexer: &mut Lexer<'_>) -> Result<Requirement, RequirementError> {
    let mut key = lexer.take().as_value();
    let negated = key.kind == Kind::Not;
    if negated {
        key = lexer.take().as_value();
    }
    if key.kind != Kind::Word {
        return Err(key.unexpected("identifier"));
    }
    let wrong = label_key(key.text);
    if !wrong.is_empty() {
        let error = FieldError::invalid(&Path::NONE, key.text, wrong.join("; "));
        return Err(RequirementError::Key(Box::new(error.into())));
    }
    let stands_alone = matches!(lexer.next.kind, Kind::End | Kind::Comma);
    let (operator, values) = match (negated, stands_alone) {
        (true, _) => (Operator::DoesNotExist, BTreeSet::new()),
        (false, true) => (Operator::Exists, BTreeSet::new()),
        (false, false) => parse_condition(lexer)?,
    };
    let values: Vec<&str> = values.into_iter().collect();
    Requirement::new(key.text, operator, &values).map_err(RequirementError::Invalid)
}

fn parse_condition<'a>(lexer: &mut Lexer<'a>) -> Result<(Operator, BTreeSet<&'a str>), RequirementError> {
    let token = lexer.take();
    let operator = match token.kind {
        Kind::In => Operator::In,
        Kind::NotIn => Operator::NotIn,
        Kind::Equals => Operator::Equals,
        Kind::DoubleEquals => Operator::DoubleEquals,
        Kind::NotEquals => Operator::NotEquals,
        Kind::Greater => Operator::GreaterThan,
        Kind::Less => Operator::LessThan,
        _ => return Err(token.unexpected("in, notin, =, ==, !=, gt, lt")),
    };
    let values = match operator {
        Operator::In | Operator::NotIn => parse_list(lexer)?,
        _ => BTreeSet::from([parse_value(lexer)?]),
    };
    Ok((operator, values))
}

fn parse_value<'a>(lexer: &mut Lexer<'a>) -> Result<&'a str, RequirementError> {
    if matches!(lexer.next.kind, Kind::End | Kind::Comma) {
        return Ok("");
    }
    let value = lexer.take().as_value();
    if value.kind == Kind::Word { Ok(value.text) } else { Err(value.unexpected("identifier")) }
}

/// Parses a list in parentheses. Its items may be empty, and an empty list has one empty item.
fn parse_list<'a>(lexer: &mut Lexer<'a>) -> Result<BTreeSet<&'a str>, RequirementError> {
    let open = lexer.take();
    if open.kind != Kind::Open {
        return Err(RequirementError::NoList(open.text.into()));
    }
    let first = lexer.next.as_value();
    if first.kind == Kind::Close {
        lexer.take();
        return Ok(BTreeSet::from([""]));
    }
    if !matches!(first.kind, Kind::Word | Kind::Comma) {
        return Err(first.unexpected("',', ')' or identifier"));
    }
    let mut values = BTreeSet::new();
    loop {
        let token = lexer.take().as_value();
        let next = lexer.next.as_value();
        match token.kind {
            Kind::Word => {
                values.insert(token.text);
                if !matches!(next.kind, Kind::Comma | Kind::Close) {
                    return Err(next.unexpected("',' or ')'"));
                }
            }
            Kind::Comma => {
                if values.is_empty() || matches!(next.kind, Kind::Comma | Kind::Close) {
                    values.insert("");
                }
            }
            _ => return Err(token.unexpected("',', or identifier")),
        }
        if next.kind == Kind::Close {
            lexer.take();
            return Ok(values);
        }
    }
}
