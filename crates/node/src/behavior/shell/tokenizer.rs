//! Tokenizer of shell scripts, up to the first unsupported token.

use super::parser::RunCondition;

/// Word: texts and variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub parts: Vec<WordPart>,
    /// `true` if a part is quoted: then the word exists even if it is empty.
    pub is_quoted: bool,
}

/// Part of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WordPart {
    /// Literal text.
    Text(String),
    /// Variable expansion.
    Variable {
        name: String,
        /// Default value, and `true` if it also replaces an empty value.
        fallback: Option<(String, bool)>,
        /// `true` if it is quoted, and thus not split.
        is_quoted: bool,
    },
}

impl Word {
    /// Returns its text, if it has neither quotes nor variables.
    pub fn literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [WordPart::Text(text)] if !self.is_quoted => Some(text),
            _ => None,
        }
    }

    fn push(&mut self, character: char) {
        match self.parts.last_mut() {
            Some(WordPart::Text(text)) => text.push(character),
            _ => self.parts.push(WordPart::Text(character.into())),
        }
    }
}

#[derive(Debug)]
pub(super) enum Token {
    Word(Word),
    Redirect(Word, bool),
    Separator(RunCondition),
    /// `&`: the preceding command runs in the background.
    Background,
    /// Token without effect here.
    Ignored,
    /// Unsupported token, always the last one.
    Unsupported,
}

/// Returns the tokens of a script, up to the first unsupported one.
pub(super) fn tokenize(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(&next) = rest.peek() {
        match next {
            ' ' | '\t' => {
                rest.next();
            }
            '#' => while rest.next_if(|next| *next != '\n').is_some() {},
            _ => match token(next, &mut rest) {
                Some(Token::Ignored) => {}
                Some(token) => tokens.push(token),
                None => {
                    tokens.push(Token::Unsupported);
                    break;
                }
            },
        }
    }
    tokens
}

type Rest<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Parses the token that begins with a character; `None` if it is not supported.
fn token(first: char, rest: &mut Rest<'_>) -> Option<Token> {
    Some(match first {
        '\n' | ';' => {
            rest.next();
            Token::Separator(RunCondition::Always)
        }
        '&' => {
            rest.next();
            if rest.next_if_eq(&'&').is_some() {
                Token::Separator(RunCondition::OnSuccess)
            } else {
                Token::Background
            }
        }
        '|' => {
            rest.next();
            // Pipes are not supported.
            rest.next_if_eq(&'|')?;
            Token::Separator(RunCondition::OnFailure)
        }
        '>' => redirect(rest)?,
        '(' | ')' | '<' | '`' => return None,
        _ => {
            let word = word(rest)?;
            let number = word.literal().filter(|word| matches!(*word, "1" | "2"));
            match (number, rest.peek()) {
                (Some("1"), Some('>')) => redirect(rest)?,
                // Redirections of stderr are ignored: stdout and stderr are one stream here.
                (Some(_), Some('>')) => {
                    redirect(rest)?;
                    Token::Ignored
                }
                _ => Token::Word(word),
            }
        }
    })
}

/// Parses an output redirection, from `>` on.
fn redirect(rest: &mut Rest<'_>) -> Option<Token> {
    rest.next();
    let is_append = rest.next_if_eq(&'>').is_some();
    if rest.next_if_eq(&'&').is_some() {
        // `>&1` and `>&2` have no effect, since both are one stream.
        let to = word(rest)?;
        return matches!(to.literal(), Some("1" | "2")).then_some(Token::Ignored);
    }
    while rest.next_if_eq(&' ').is_some() {}
    Some(Token::Redirect(word(rest)?, is_append))
}

fn word(rest: &mut Rest<'_>) -> Option<Word> {
    let mut word = Word::default();
    while let Some(next) = rest.next_if(|next| !" \t\n;&|<>()".contains(*next)) {
        match next {
            '\'' => {
                word.is_quoted = true;
                loop {
                    match rest.next()? {
                        '\'' => break,
                        other => word.push(other),
                    }
                }
            }
            '"' => double_quoted(&mut word, rest)?,
            '\\' => match rest.next()? {
                // Line continuation.
                '\n' => {}
                other => {
                    word.push(other);
                    word.is_quoted = true;
                }
            },
            '`' => return None,
            '$' => variable(&mut word, rest, false)?,
            other => word.push(other),
        }
    }
    Some(word)
}

/// Parses a double-quoted string, after the opening quote.
fn double_quoted(word: &mut Word, rest: &mut Rest<'_>) -> Option<()> {
    word.is_quoted = true;
    loop {
        match rest.next()? {
            '"' => return Some(()),
            '\\' => match rest.next()? {
                '\n' => {}
                escaped @ ('$' | '`' | '"' | '\\') => word.push(escaped),
                other => {
                    word.push('\\');
                    word.push(other);
                }
            },
            '`' => return None,
            '$' => variable(word, rest, true)?,
            other => word.push(other),
        }
    }
}

/// Parses a variable after a dollar sign; `None` if it is not supported.
fn variable(word: &mut Word, rest: &mut Rest<'_>, is_quoted: bool) -> Option<()> {
    let is_name = |next: &char| next.is_ascii_alphanumeric() || *next == '_';
    let mut name = String::new();
    let mut fallback = None;
    match rest.peek() {
        Some('(' | '@' | '*' | '#' | '-') => return None,
        Some('{') => {
            rest.next();
            let mut inner = String::new();
            loop {
                match rest.next()? {
                    '}' => break,
                    '$' | '`' | '"' | '\'' | '\\' => return None,
                    other => inner.push(other),
                }
            }
            let end = inner.find(|next: char| !is_name(&next) && next != '?').unwrap_or(inner.len());
            let (before, after) = inner.split_at(end);
            before.clone_into(&mut name);
            fallback = match (after, after.strip_prefix(":-"), after.strip_prefix('-')) {
                ("", ..) => None,
                (_, Some(text), _) => Some((text.to_owned(), true)),
                (_, None, Some(text)) => Some((text.to_owned(), false)),
                _ => return None,
            };
            if name.is_empty() {
                return None;
            }
        }
        Some('?' | '!' | '$') => name.extend(rest.next()),
        Some(digit) if digit.is_ascii_digit() => name.extend(rest.next()),
        _ => {
            while let Some(next) = rest.next_if(is_name) {
                name.push(next);
            }
        }
    }
    if name.is_empty() {
        // A dollar sign without a name is literal.
        word.push('$');
    } else {
        word.parts.push(WordPart::Variable { name, fallback, is_quoted });
    }
    Some(())
}
