//! Parser: recursive descent for nested expressions, loops for chains of operators and members.

mod member;
mod primary;

use crate::ast::{Ast, ExprId};
use crate::builder::{Builder, Built};
use crate::error::{Failure, ParseError, ParseErrorKind};
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
/// The first error of the source.
pub fn parse(source: &str) -> Result<Ast, ParseError> {
    if u32::try_from(source.len()).is_err() {
        return Err(ParseError::new(Failure::new(0, ParseErrorKind::SizeLimit), source));
    }
    let tokens = tokenize(source);
    let mut parser = Parser { source, tokens: &tokens.list, at: 0, nesting: 0, builder: Builder::default() };
    let parsed = parser.start();
    match (parsed, tokens.failure) {
        (Ok(root), None) => Ok(parser.builder.finish(root, source)),
        // Errors at the end of the tokens are consequences of the lexer's.
        (Err(failure), Some(first)) if failure.offset < first.offset => Err(ParseError::new(failure, source)),
        (_, Some(failure)) | (Err(failure), None) => Err(ParseError::new(failure, source)),
    }
}

struct Parser<'a> {
    source: &'a str,
    tokens: &'a [Token],
    at: usize,
    nesting: usize,
    builder: Builder,
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
        token
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
        if is_closing && token.kind == TokenKind::End {
            return Err(Failure::new(token.span.start, ParseErrorKind::MissingInput(expected)));
        }
        self.unexpected(expected, |next| next == kind)
    }

    /// Fails at the next token: it is extraneous if the one after it fits, and a mismatch otherwise.
    fn unexpected<T>(&self, expected: &'static str, fits: impl Fn(TokenKind) -> bool) -> Built<T> {
        let token = self.token(0);
        let found = self.text(token).to_owned();
        let kind = if token.kind != TokenKind::End && fits(self.token(1).kind) {
            ParseErrorKind::ExtraneousInput { found, expected }
        } else {
            ParseErrorKind::MismatchedInput { found, expected }
        };
        Err(Failure::new(token.span.start, kind))
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

    fn no_expression<T>(&self) -> Built<T> {
        self.unexpected(EXPRESSION_START, TokenKind::is_expression_start)
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
