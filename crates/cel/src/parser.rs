//! Parser: recursive descent for nested expressions, loops for chains of operators and members.

mod member;
mod primary;

use crate::ast::{Ast, ExprId};
use crate::builder::{Builder, Built};
use crate::error::{Failure, PARSE_ERRORS_MAX, ParseError, ParseErrorKind};
use crate::lexer::tokenize;
use crate::literal::Literal;
use crate::operator::{Operator, Precedence};
use crate::source::Span;
use crate::token::{EXPRESSION_START, Token, TokenKind};

/// Largest number of expressions within each other: in parentheses, arguments, elements, indexes, and branches of
/// conditionals.
pub const NESTING_MAX: usize = 250;

/// Parses an expression and expands its macros.
///
/// # Errors
/// The errors of the source: all texts that are no tokens, and the errors up to the first from which the parser cannot
/// recover.
pub fn parse(source: &str) -> Result<Ast, ParseError> {
    if u32::try_from(source.len()).is_err() {
        return Err(ParseError::new(Failure::new(0, ParseErrorKind::SizeLimit), Vec::new(), source));
    }
    let tokens = tokenize(source);
    let mut parser = Parser {
        source,
        tokens: &tokens.list,
        at: 0,
        nesting: 0,
        builder: Builder::default(),
        failures: tokens.failures,
        is_recovering: false,
    };
    let last = match parser.start() {
        Ok(root) if parser.failures.is_empty() => return Ok(parser.builder.finish(root, source)),
        Ok(_) => None,
        Err(failure) => Some(failure).filter(|_| !parser.is_recovering),
    };
    let mut failures = parser.failures;
    failures.extend(last);
    failures.sort_by_key(|failure| failure.offset);
    let mut failures = failures.into_iter();
    let first = failures.next().expect("an error that is not reported follows another");
    Err(ParseError::new(first, failures.take(PARSE_ERRORS_MAX).collect(), source))
}

struct Parser<'a> {
    source: &'a str,
    tokens: &'a [Token],
    at: usize,
    nesting: usize,
    builder: Builder,
    failures: Vec<Failure>,
    /// `true` from an error to the next token that fits: errors in between are consequences, and not reported.
    is_recovering: bool,
}

impl<'a> Parser<'a> {
    fn start(&mut self) -> Built {
        let root = self.expression()?;
        self.expect(TokenKind::End, "<EOF>")?;
        Ok(root)
    }

    /// Returns a token ahead; beyond the last, the last.
    fn token(&self, ahead: usize) -> Token {
        self.tokens[(self.at + ahead).min(self.tokens.len() - 1)]
    }

    fn peek(&self) -> TokenKind {
        self.token(0).kind
    }

    fn advance(&mut self) -> Token {
        let token = self.token(0);
        self.at += 1;
        self.is_recovering = false;
        token
    }

    /// Records an error, and goes on.
    fn report(&mut self, failure: Failure) {
        if !self.is_recovering && self.failures.len() < PARSE_ERRORS_MAX {
            self.failures.push(failure);
        }
        self.is_recovering = true;
    }

    /// Skips the next token, with an error, if the one after it fits.
    fn skip_extraneous(&mut self, expected: &'static str, fits: impl Fn(TokenKind) -> bool) -> bool {
        let token = self.token(0);
        let is_extraneous = token.kind != TokenKind::End && fits(self.token(1).kind);
        if is_extraneous {
            let found = self.text(token).to_owned();
            self.report(Failure::new(token.span.start, ParseErrorKind::ExtraneousInput { found, expected }));
            self.at += 1;
        }
        is_extraneous
    }

    /// Consumes the next token if it has the kind.
    fn accept(&mut self, kind: TokenKind) -> Option<Token> {
        (self.peek() == kind).then(|| self.advance())
    }

    fn expect(&mut self, kind: TokenKind, expected: &'static str) -> Built<Token> {
        let token = self.token(0);
        if token.kind == kind {
            return Ok(self.advance());
        }
        let is_closing =
            matches!(kind, TokenKind::RightParen | TokenKind::RightBracket | TokenKind::RightBrace);
        if self.skip_extraneous(expected, |next| next == kind) {
            return Ok(self.advance());
        }
        let is_absent = is_closing && token.kind == TokenKind::End
            || kind == TokenKind::Colon && token.kind.is_expression_start();
        if is_absent {
            let found = self.text(token).to_owned();
            self.report(Failure::new(token.span.start, ParseErrorKind::MissingInput { expected, found }));
            return Ok(token);
        }
        self.mismatch(expected)
    }

    /// Fails at the next token.
    fn mismatch<T>(&self, expected: &'static str) -> Built<T> {
        let token = self.token(0);
        let found = self.text(token).to_owned();
        Err(Failure::new(token.span.start, ParseErrorKind::MismatchedInput { found, expected }))
    }

    fn text(&self, token: Token) -> &'a str {
        if token.kind == TokenKind::End { "<EOF>" } else { token.span.text(self.source) }
    }

    /// Parses a whole expression: conditionals associate to the right.
    fn expression(&mut self) -> Built {
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            return Err(Failure::new(self.token(0).span.start, ParseErrorKind::NestingLimit));
        }
        let mut result = self.disjunction()?;
        if let Some(question) = self.accept(TokenKind::Question) {
            let then = self.disjunction()?;
            self.expect(TokenKind::Colon, "':'")?;
            let otherwise = self.expression()?;
            result =
                self.builder.operation(question.span, Operator::Conditional, &[result, then, otherwise])?;
        }
        self.nesting -= 1;
        Ok(result)
    }

    fn disjunction(&mut self) -> Built {
        self.chain(TokenKind::Or, Operator::Or, Self::conjunction)
    }

    fn conjunction(&mut self) -> Built {
        self.chain(TokenKind::And, Operator::And, |parser| parser.binary(Precedence::Relation))
    }

    fn chain(&mut self, kind: TokenKind, operator: Operator, term: impl Fn(&mut Self) -> Built) -> Built {
        let first = term(self)?;
        if self.peek() != kind {
            return Ok(first);
        }
        let (mut terms, mut spans): (Vec<ExprId>, Vec<Span>) = (vec![first], Vec::new());
        while let Some(token) = self.accept(kind) {
            spans.push(token.span);
            terms.push(term(self)?);
        }
        self.builder.balance(operator, &terms, &spans)
    }

    /// Parses relations, sums and products that bind at least as strongly as `weakest`. The recursion is at most
    /// one call per precedence.
    fn binary(&mut self, weakest: Precedence) -> Built {
        let mut left = self.unary()?;
        while let Some(operator) = binary_operator(self.peek()) {
            let precedence = operator.precedence();
            if precedence < weakest {
                break;
            }
            let token = self.advance();
            let right = self.binary(precedence.next())?;
            left = self.builder.operation(token.span, operator, &[left, right])?;
        }
        Ok(left)
    }

    /// Parses a run of `!` or of `-`; pairs cancel out. One `-` before a number is its sign.
    fn unary(&mut self) -> Built {
        let first = self.token(0);
        let operator = match first.kind {
            TokenKind::Not => Operator::Not,
            TokenKind::Minus => Operator::Negate,
            _ => return self.member(),
        };
        let start = self.at;
        while self.accept(first.kind).is_some() {}
        let count = self.at - start;
        if !self.peek().is_expression_start() {
            // ANTLR expects one more operator here, and calls anything else extraneous.
            let next = self.token(0);
            let found = self.text(next).to_owned();
            if operator == Operator::Negate && next.kind == TokenKind::End {
                let kind = ParseErrorKind::NoViableAlternative("-".into());
                self.report(Failure::new(next.span.start, kind));
                self.is_recovering = false;
                return self.mismatch(EXPRESSION_START);
            }
            let kind = ParseErrorKind::ExtraneousInput { found, expected: EXPRESSION_START };
            return Err(Failure::new(next.span.start, kind));
        }
        if count == 1 && operator == Operator::Negate && is_number(self.peek()) {
            self.at = start;
            return self.member();
        }
        let operand = self.member()?;
        if count.is_multiple_of(2) {
            Ok(operand)
        } else {
            self.builder.operation(first.span, operator, &[operand])
        }
    }

    /// Fails at a token that begins no expression, or parses the expression after it.
    fn no_expression(&mut self, expected: &'static str) -> Built {
        if self.skip_extraneous(expected, TokenKind::is_expression_start) {
            return self.primary();
        }
        if self.report_operator(expected) {
            // Any operand will do: the source has an error.
            return self.builder.literal(self.token(0).span, Literal::Null);
        }
        self.mismatch(expected)
    }

    /// Reports an operator in place of its operand, which lets the parser go on.
    fn report_operator(&mut self, expected: &'static str) -> bool {
        let token = self.token(0);
        let is_chain = matches!(token.kind, TokenKind::And | TokenKind::Or);
        let is_operator = is_chain || binary_operator(token.kind).is_some();
        if is_operator {
            let found = self.text(token).to_owned();
            self.report(Failure::new(token.span.start, ParseErrorKind::MismatchedInput { found, expected }));
        }
        is_operator
    }

    fn literal_node(&mut self, span: Span, value: Result<Literal, ParseErrorKind>) -> Built {
        let literal = value.map_err(|kind| Failure::new(span.start, kind))?;
        self.builder.literal(span, literal)
    }
}

fn is_number(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Int | TokenKind::Double)
}

fn binary_operator(kind: TokenKind) -> Option<Operator> {
    Some(match kind {
        TokenKind::Equals => Operator::Equals,
        TokenKind::NotEquals => Operator::NotEquals,
        TokenKind::Less => Operator::Less,
        TokenKind::LessEquals => Operator::LessEquals,
        TokenKind::Greater => Operator::Greater,
        TokenKind::GreaterEquals => Operator::GreaterEquals,
        TokenKind::In => Operator::In,
        TokenKind::Plus => Operator::Add,
        TokenKind::Minus => Operator::Subtract,
        TokenKind::Star => Operator::Multiply,
        TokenKind::Slash => Operator::Divide,
        TokenKind::Percent => Operator::Modulo,
        _ => return None,
    })
}
