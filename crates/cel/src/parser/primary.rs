//! Identifiers, literals, parentheses, and literals of lists, maps and messages.

use super::Parser;
use crate::ast::{Element, ExprKind, FieldInit, MapEntry};
use crate::builder::Built;
use crate::error::{Failure, ParseErrorKind};
use crate::literal::{self, Literal};
use crate::source::Span;
use crate::token::{EXPRESSION_START, Token, TokenKind};

/// Identifiers that are neither variables nor functions. `true`, `false`, `null` and `in` are tokens of their own.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Tokens around the entries of a literal, in the notation of error messages.
#[derive(Clone, Copy)]
struct Notation {
    /// First tokens after the opening one.
    start: &'static str,
    /// Closing token.
    closing: &'static str,
    /// Tokens that may follow an entry.
    following: &'static str,
}

const LIST: Notation = Notation {
    start: "{'[', ']', '{', '(', '.', ',', '-', '!', '?', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, \
            BYTES, IDENTIFIER}",
    closing: "']'",
    following: "{']', ','}",
};

const MAP: Notation = Notation {
    start: "{'[', '{', '}', '(', '.', ',', '-', '!', '?', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, \
            BYTES, IDENTIFIER}",
    closing: "'}'",
    following: "{'}', ','}",
};

const MESSAGE: Notation = Notation { start: FIELD_START, ..MAP };

const FIELD_START: &str = "{'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}";

impl Parser<'_> {
    pub(super) fn primary(&mut self) -> Built {
        let token = self.token(0);
        match token.kind {
            TokenKind::Identifier | TokenKind::Dot => self.named(),
            TokenKind::LeftParen => {
                self.advance();
                let inner = self.expression()?;
                self.expect(TokenKind::RightParen, "')'")?;
                Ok(inner)
            }
            TokenKind::LeftBracket => self.list(),
            TokenKind::LeftBrace => self.map(),
            TokenKind::Minus => self.literal(true),
            kind if kind.is_literal() => self.literal(false),
            _ => self.no_expression(EXPRESSION_START),
        }
    }

    /// Parses a literal; a sign precedes only numbers.
    fn literal(&mut self, is_negative: bool) -> Built {
        let start = if is_negative { self.advance().span.start } else { self.token(0).span.start };
        let token = self.token(0);
        let text = self.text(token);
        let value = match token.kind {
            TokenKind::Int => literal::int(text, is_negative),
            TokenKind::Double => literal::double(text, is_negative),
            _ if is_negative => return self.mismatch(EXPRESSION_START),
            TokenKind::Uint => literal::uint(text),
            TokenKind::String => literal::string(text),
            TokenKind::Bytes => literal::bytes(text),
            TokenKind::True => Ok(Literal::Bool(true)),
            TokenKind::False => Ok(Literal::Bool(false)),
            TokenKind::Null => Ok(Literal::Null),
            _ => return self.mismatch(EXPRESSION_START),
        };
        self.advance();
        self.literal_node(Span { start, end: token.span.end }, value)
    }

    /// Parses a variable, a call of a function, or a message literal.
    fn named(&mut self) -> Built {
        let first = self.token(0);
        if let Some(tokens) = self.message_name_length() {
            return self.message(tokens);
        }
        let dot = self.accept(TokenKind::Dot);
        let name = self.token(0);
        if name.kind != TokenKind::Identifier {
            let text = format!(".{}", if name.kind == TokenKind::End { "" } else { self.text(name) });
            return Err(Failure::new(name.span.start, ParseErrorKind::NoViableAlternative(text)));
        }
        self.advance();
        let word = self.text(name);
        if RESERVED.contains(&word) {
            let kind = ParseErrorKind::ReservedIdentifier(word.to_owned());
            return Err(Failure::new(first.span.start, kind));
        }
        let full: Box<str> = if dot.is_some() { format!(".{word}").into() } else { word.into() };
        if self.peek() == TokenKind::LeftParen {
            return self.call(full, None);
        }
        self.builder.add(name.span, ExprKind::Ident(full))
    }

    /// Returns the number of tokens of a dotted name, if a brace follows it. Each token is inspected once, since
    /// the members of the name are not primary expressions.
    fn message_name_length(&self) -> Option<usize> {
        let mut length = usize::from(self.peek() == TokenKind::Dot);
        loop {
            if self.token(length).kind != TokenKind::Identifier {
                return None;
            }
            length += 1;
            match self.token(length).kind {
                TokenKind::Dot => length += 1,
                TokenKind::LeftBrace => return Some(length),
                _ => return None,
            }
        }
    }

    fn message(&mut self, name_length: usize) -> Built {
        let mut name = String::new();
        for _ in 0..name_length {
            let token = self.advance();
            name.push_str(self.text(token));
        }
        let open = self.advance();
        let mut fields = Vec::new();
        self.entries(TokenKind::RightBrace, MESSAGE, |parser| {
            let is_optional = parser.accept(TokenKind::Question).is_some();
            let is_start = |next| {
                let name = matches!(next, TokenKind::Identifier | TokenKind::EscapedIdentifier);
                name || next == TokenKind::RightBrace
            };
            if !is_start(parser.peek()) {
                parser.skip_extraneous(FIELD_START, is_start);
            }
            let Some(name) = parser.field_name() else {
                return parser.mismatch(FIELD_START);
            };
            parser.expect(TokenKind::Colon, "':'")?;
            fields.push(FieldInit { name, value: parser.expression()?, is_optional });
            Ok(())
        })?;
        self.builder.add(open.span, ExprKind::Message { name: name.into(), fields: fields.into() })
    }

    fn list(&mut self) -> Built {
        let open = self.advance();
        let mut elements = Vec::new();
        self.entries(TokenKind::RightBracket, LIST, |parser| {
            let is_optional = parser.accept(TokenKind::Question).is_some();
            elements.push(Element { value: parser.expression()?, is_optional });
            Ok(())
        })?;
        self.builder.add(open.span, ExprKind::List(elements.into()))
    }

    fn map(&mut self) -> Built {
        let open = self.advance();
        let mut entries = Vec::new();
        self.entries(TokenKind::RightBrace, MAP, |parser| {
            let is_optional = parser.accept(TokenKind::Question).is_some();
            let key = parser.expression()?;
            parser.expect(TokenKind::Colon, "':'")?;
            entries.push(MapEntry { key, value: parser.expression()?, is_optional });
            Ok(())
        })?;
        self.builder.add(open.span, ExprKind::Map(entries.into()))
    }

    /// Parses entries up to the closing token. A comma may follow the last entry, and stand alone.
    fn entries(
        &mut self,
        close: TokenKind,
        notation: Notation,
        mut entry: impl FnMut(&mut Self) -> Built<()>,
    ) -> Built<Token> {
        let fits = |next: TokenKind| {
            let is_name = next == TokenKind::EscapedIdentifier && notation.start == FIELD_START;
            let is_end = next == close || next == TokenKind::Comma;
            next.is_expression_start() || next == TokenKind::Question || is_name || is_end
        };
        if !fits(self.peek())
            && !self.skip_extraneous(notation.start, fits)
            && !self.report_operator(notation.start)
        {
            return self.mismatch(notation.start);
        }
        if self.peek() != close && self.peek() != TokenKind::Comma {
            entry(self)?;
            while self.peek() == TokenKind::Comma && self.token(1).kind != close {
                self.advance();
                entry(self)?;
            }
        }
        let fits = |next| next == close || next == TokenKind::Comma;
        if !fits(self.peek()) && !self.skip_extraneous(notation.following, fits) {
            return self.mismatch(notation.following);
        }
        self.accept(TokenKind::Comma);
        self.expect(close, notation.closing)
    }
}
