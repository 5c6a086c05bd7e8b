//! Lexer: one pass over the source, longest match.

use crate::error::{Failure, PARSE_ERRORS_MAX, ParseErrorKind};
use crate::source::Span;
use crate::token::{Token, TokenKind};

/// Tokens, and the texts that are none. The last token is always [`TokenKind::End`].
pub(crate) struct Tokens {
    pub(crate) list: Vec<Token>,
    /// At most [`PARSE_ERRORS_MAX`].
    pub(crate) failures: Vec<Failure>,
}

/// Splits a source of at most `u32::MAX` bytes into tokens.
pub(crate) fn tokenize(source: &str) -> Tokens {
    let mut lexer = Lexer { source, bytes: source.as_bytes(), at: 0 };
    let mut list = Vec::new();
    let mut failures = Vec::new();
    loop {
        lexer.skip_blanks();
        let start = lexer.at;
        if start == lexer.bytes.len() {
            break;
        }
        match lexer.scan() {
            Ok(kind) => list.push(Token { kind, span: span(start, lexer.at) }),
            Err(end) => {
                // The offending character belongs to the text, as in ANTLR's message.
                let end = source.ceil_char_boundary(end + 1);
                if failures.len() < PARSE_ERRORS_MAX {
                    let text = source[start..end].to_owned();
                    failures.push(Failure::new(offset(start), ParseErrorKind::InvalidToken(text)));
                }
                lexer.at = end;
            }
        }
    }
    list.push(Token { kind: TokenKind::End, span: span(lexer.at, lexer.at) });
    Tokens { list, failures }
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn span(start: usize, end: usize) -> Span {
    Span { start: offset(start), end: offset(end) }
}

struct Lexer<'a> {
    source: &'a str,
    bytes: &'a [u8],
    at: usize,
}

/// Kind of the token, or the offset of the byte that ends no token.
type Scanned = Result<TokenKind, usize>;

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn skip_while(&mut self, accepts: impl Fn(u8) -> bool) {
        while self.peek(0).is_some_and(&accepts) {
            self.at += 1;
        }
    }

    fn skip_blanks(&mut self) {
        loop {
            self.skip_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0x0c));
            if !self.bytes[self.at..].starts_with(b"//") {
                return;
            }
            self.skip_while(|byte| byte != b'\n');
        }
    }

    fn scan(&mut self) -> Scanned {
        if let Some((prefix, is_raw, kind)) = self.string_prefix() {
            self.at += prefix;
            return self.scan_string(is_raw).map(|()| kind);
        }
        match self.bytes[self.at] {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => Ok(self.scan_word()),
            b'0'..=b'9' => Ok(self.scan_number()),
            b'.' if self.peek(1).is_some_and(|byte| byte.is_ascii_digit()) => Ok(self.scan_number()),
            b'`' => self.scan_escaped_identifier(),
            first => {
                if let Some(kind) = self.peek(1).and_then(|second| TokenKind::of_symbols([first, second])) {
                    self.at += 2;
                    return Ok(kind);
                }
                let failed_at = if matches!(first, b'=' | b'&' | b'|') { self.at + 1 } else { self.at };
                let kind = TokenKind::of_symbol(first).ok_or(failed_at)?;
                self.at += 1;
                Ok(kind)
            }
        }
    }

    /// Returns the length of the prefix of a string literal, whether it is raw, and its kind.
    fn string_prefix(&self) -> Option<(usize, bool, TokenKind)> {
        let is_bytes = matches!(self.peek(0), Some(b'b' | b'B'));
        let is_raw = matches!(self.peek(usize::from(is_bytes)), Some(b'r' | b'R'));
        let prefix = usize::from(is_bytes) + usize::from(is_raw);
        let kind = if is_bytes { TokenKind::Bytes } else { TokenKind::String };
        matches!(self.peek(prefix), Some(b'"' | b'\'')).then_some((prefix, is_raw, kind))
    }

    fn scan_word(&mut self) -> TokenKind {
        let start = self.at;
        self.skip_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        TokenKind::of_word(&self.source[start..self.at])
    }

    fn scan_escaped_identifier(&mut self) -> Scanned {
        self.at += 1;
        let start = self.at;
        self.skip_while(|byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'/' | b' ')
        });
        if self.at == start || self.peek(0) != Some(b'`') {
            return Err(self.at);
        }
        self.at += 1;
        Ok(TokenKind::EscapedIdentifier)
    }

    fn scan_number(&mut self) -> TokenKind {
        let is_hex = self.bytes[self.at..].starts_with(b"0x")
            && self.peek(2).is_some_and(|byte| byte.is_ascii_hexdigit());
        if is_hex {
            self.at += 2;
            self.skip_while(|byte| byte.is_ascii_hexdigit());
        } else {
            self.skip_while(|byte| byte.is_ascii_digit());
            let has_fraction = self.peek(0) == Some(b'.') && self.has_digit(1);
            if has_fraction {
                self.at += 1;
                self.skip_while(|byte| byte.is_ascii_digit());
            }
            if self.scan_exponent() || has_fraction {
                return TokenKind::Double;
            }
        }
        if matches!(self.peek(0), Some(b'u' | b'U')) {
            self.at += 1;
            return TokenKind::Uint;
        }
        TokenKind::Int
    }

    fn has_digit(&self, ahead: usize) -> bool {
        self.peek(ahead).is_some_and(|byte| byte.is_ascii_digit())
    }

    fn scan_exponent(&mut self) -> bool {
        if !matches!(self.peek(0), Some(b'e' | b'E')) {
            return false;
        }
        let sign = usize::from(matches!(self.peek(1), Some(b'+' | b'-')));
        if !self.has_digit(1 + sign) {
            return false;
        }
        self.at += 1 + sign;
        self.skip_while(|byte| byte.is_ascii_digit());
        true
    }

    fn scan_string(&mut self, is_raw: bool) -> Result<(), usize> {
        let quote = self.bytes[self.at];
        let is_triple = self.bytes[self.at..].starts_with(&[quote; 3]);
        let closing: &[u8] = if is_triple { &[quote; 3] } else { &[quote] };
        self.at += closing.len();
        while !self.bytes[self.at..].starts_with(closing) {
            match self.peek(0) {
                Some(b'\\') if !is_raw => self.scan_escape()?,
                Some(b'\n' | b'\r') if !is_triple => return Err(self.at),
                Some(_) => self.at += 1,
                None => return Err(self.at),
            }
        }
        self.at += closing.len();
        Ok(())
    }

    fn scan_escape(&mut self) -> Result<(), usize> {
        let is_octal = |byte: u8| matches!(byte, b'0'..=b'7');
        let is_hex = |byte: u8| byte.is_ascii_hexdigit();
        let (digits, accepts): (usize, fn(u8) -> bool) = match self.peek(1) {
            Some(b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v') => (0, is_hex),
            Some(b'"' | b'\'' | b'\\' | b'?' | b'`') => (0, is_hex),
            Some(b'0'..=b'3') => (2, is_octal),
            Some(b'x' | b'X') => (2, is_hex),
            Some(b'u') => (4, is_hex),
            Some(b'U') => (8, is_hex),
            _ => return Err(self.at + 1),
        };
        self.at += 2;
        for _ in 0..digits {
            if !self.peek(0).is_some_and(accepts) {
                return Err(self.at);
            }
            self.at += 1;
        }
        Ok(())
    }
}
