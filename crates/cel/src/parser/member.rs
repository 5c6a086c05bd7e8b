//! Selections, indexes and calls.

use super::Parser;
use crate::ast::{ExprId, ExprKind, MacroCall};
use crate::builder::Built;
use crate::error::{Failure, ParseErrorKind};
use crate::literal::Literal;
use crate::macros;
use crate::operator::Operator;
use crate::source::Span;
use crate::token::{Token, TokenKind};

/// First tokens of an index, in the notation of error messages.
const INDEX_START: &str = "{'[', '{', '(', '.', '-', '!', '?', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, \
     STRING, BYTES, IDENTIFIER}";

/// First tokens of the arguments of a call.
const ARGUMENT_START: &str = "{'[', '{', '(', ')', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, \
     STRING, BYTES, IDENTIFIER}";

const FIELD_NAME: &str = "{IDENTIFIER, ESC_IDENTIFIER}";

impl Parser<'_> {
    /// Parses a primary expression and the members that follow it.
    pub(super) fn member(&mut self) -> Built {
        let mut operand = self.primary()?;
        loop {
            let token = self.token(0);
            operand = match token.kind {
                TokenKind::Dot => self.selection(operand)?,
                TokenKind::LeftBracket => self.index(operand)?,
                _ => return Ok(operand),
            };
        }
    }

    fn selection(&mut self, operand: ExprId) -> Built {
        let dot = self.advance();
        let is_optional = self.accept(TokenKind::Question).is_some();
        let name = self.token(0);
        let Some(field) = self.field_name() else {
            return self.no_field(operand, name, is_optional);
        };
        if is_optional {
            let field = self.builder.literal(name.span, Literal::String(field))?;
            return self.builder.operation(dot.span, Operator::OptionalSelect, &[operand, field]);
        }
        let is_call = name.kind == TokenKind::Identifier && self.peek() == TokenKind::LeftParen;
        if is_call {
            return self.call(field, Some(operand));
        }
        self.builder.add(dot.span, ExprKind::Select { operand, field, test_only: false })
    }

    /// Reports a dot without a field name. `in` after it is taken for the operator.
    fn no_field(&mut self, operand: ExprId, name: Token, is_optional: bool) -> Built {
        if is_optional && name.kind == TokenKind::End {
            let found = self.text(name).to_owned();
            let kind = ParseErrorKind::MismatchedInput { found, expected: FIELD_NAME };
            self.report(Failure::new(name.span.start, kind));
            self.is_recovering = false;
            return Err(Failure::new(name.span.start, ParseErrorKind::UnsupportedIdent));
        }
        let text = format!(".{}{}", if is_optional { "?" } else { "" }, self.following_text(name));
        let failure = Failure::new(name.span.start, ParseErrorKind::NoViableAlternative(text));
        if name.kind != TokenKind::In {
            return Err(failure);
        }
        self.report(failure);
        Ok(operand)
    }

    fn following_text(&self, token: Token) -> &str {
        if token.kind == TokenKind::End { "" } else { self.text(token) }
    }

    /// Consumes an identifier or a name in backquotes. Reserved words other than literals and `in` are field names.
    pub(super) fn field_name(&mut self) -> Option<Box<str>> {
        let token = self.token(0);
        let name = match token.kind {
            TokenKind::Identifier => self.text(token),
            TokenKind::EscapedIdentifier => self.text(token).trim_matches('`'),
            _ => return None,
        };
        self.advance();
        Some(name.into())
    }

    fn index(&mut self, operand: ExprId) -> Built {
        let open = self.advance();
        let is_optional = self.accept(TokenKind::Question).is_some();
        let fits = TokenKind::is_expression_start;
        if !is_optional
            && !fits(self.peek())
            && !self.skip_extraneous(INDEX_START, fits)
            && !self.report_operator(INDEX_START)
        {
            return self.mismatch(INDEX_START);
        }
        let index = self.expression()?;
        self.expect(TokenKind::RightBracket, "']'")?;
        let operator = if is_optional { Operator::OptionalIndex } else { Operator::Index };
        self.builder.operation(open.span, operator, &[operand, index])
    }

    /// Parses the arguments of a call, which the next token opens, and expands it if it is a macro.
    pub(super) fn call(&mut self, function: Box<str>, target: Option<ExprId>) -> Built {
        let open = self.advance();
        let mut args = Vec::new();
        let fits = |next: TokenKind| next.is_expression_start() || next == TokenKind::RightParen;
        if !fits(self.peek())
            && !self.skip_extraneous(ARGUMENT_START, fits)
            && !self.report_operator(ARGUMENT_START)
        {
            return self.mismatch(ARGUMENT_START);
        }
        if self.accept(TokenKind::RightParen).is_none() {
            args.push(self.expression()?);
            while self.accept(TokenKind::Comma).is_some() {
                args.push(self.expression()?);
            }
            self.expect(TokenKind::RightParen, "')'")?;
        }
        self.builder.call_or_macro(open.span, function, target, args.into())
    }
}

impl crate::builder::Builder {
    /// Adds a call, or the expansion of a macro.
    pub(crate) fn call_or_macro(
        &mut self,
        span: Span,
        function: Box<str>,
        target: Option<ExprId>,
        args: Box<[ExprId]>,
    ) -> Built {
        let call = MacroCall { function, target, args };
        if let Some(expanded) = macros::expand(self, span, &call)? {
            return Ok(expanded);
        }
        let MacroCall { function, target, args } = call;
        self.add(span, ExprKind::Call { function, target, args })
    }
}
