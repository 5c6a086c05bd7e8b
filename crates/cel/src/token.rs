//! Tokens of the grammar.

use crate::source::Span;

/// Token with its place in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Identifier,
    EscapedIdentifier,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    True,
    False,
    Null,
    In,
    Equals,
    NotEquals,
    Less,
    LessEquals,
    Greater,
    GreaterEquals,
    And,
    Or,
    LeftBracket,
    RightBracket,
    LeftBrace,
    RightBrace,
    LeftParen,
    RightParen,
    Dot,
    Comma,
    Minus,
    Not,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    End,
}

/// First tokens of an expression, in the notation of error messages.
pub(crate) const EXPRESSION_START: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, \
     NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

impl TokenKind {
    /// Returns the keyword or identifier kind of a word.
    pub(crate) fn of_word(word: &str) -> Self {
        match word {
            "true" => Self::True,
            "false" => Self::False,
            "null" => Self::Null,
            "in" => Self::In,
            _ => Self::Identifier,
        }
    }

    /// Returns the kind of an operator of one character.
    pub(crate) fn of_symbol(symbol: u8) -> Option<Self> {
        Some(match symbol {
            b'<' => Self::Less,
            b'>' => Self::Greater,
            b'[' => Self::LeftBracket,
            b']' => Self::RightBracket,
            b'{' => Self::LeftBrace,
            b'}' => Self::RightBrace,
            b'(' => Self::LeftParen,
            b')' => Self::RightParen,
            b'.' => Self::Dot,
            b',' => Self::Comma,
            b'-' => Self::Minus,
            b'!' => Self::Not,
            b'?' => Self::Question,
            b':' => Self::Colon,
            b'+' => Self::Plus,
            b'*' => Self::Star,
            b'/' => Self::Slash,
            b'%' => Self::Percent,
            _ => return None,
        })
    }

    /// Returns the kind of an operator of two characters.
    pub(crate) fn of_symbols(symbols: [u8; 2]) -> Option<Self> {
        Some(match &symbols {
            b"==" => Self::Equals,
            b"!=" => Self::NotEquals,
            b"<=" => Self::LessEquals,
            b">=" => Self::GreaterEquals,
            b"&&" => Self::And,
            b"||" => Self::Or,
            _ => return None,
        })
    }

    /// `true` if an expression can begin with the token.
    pub(crate) fn is_expression_start(self) -> bool {
        self.is_literal()
            || matches!(
                self,
                Self::Identifier
                    | Self::LeftBracket
                    | Self::LeftBrace
                    | Self::LeftParen
                    | Self::Dot
                    | Self::Minus
                    | Self::Not
            )
    }

    pub(crate) fn is_literal(self) -> bool {
        matches!(
            self,
            Self::Int
                | Self::Uint
                | Self::Double
                | Self::String
                | Self::Bytes
                | Self::True
                | Self::False
                | Self::Null
        )
    }
}
