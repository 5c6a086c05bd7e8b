//! A script as a tree of commands, as far as they are known here.

/// When a command of a sequence runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    Any,
    Success,
    Failure,
}

/// A command, and when it runs.
pub(super) struct Command {
    pub after: After,
    pub what: What,
}

/// What a command is.
pub(super) enum What {
    /// A program with its arguments; what it says goes into a file if one is named.
    Plain { words: Vec<String>, into: Option<(String, bool)> },
    /// One of two sequences, as a third one ends.
    If { condition: Vec<Command>, then: Vec<Command>, otherwise: Vec<Command> },
    /// A sequence, again and again without end.
    Forever(Vec<Command>),
    /// Something that is not known here.
    Unknown,
}

/// Words that begin something that is not known here.
const UNKNOWN: [&str; 7] = ["until", "for", "case", "function", "{", "(", "!"];

/// The commands of a script. Nothing follows the first one that is not known.
pub(super) fn parse(text: &str) -> Vec<Command> {
    Parser { tokens: tokens(text).into_iter().peekable() }.sequence(&[])
}

struct Parser {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
}

impl Parser {
    /// The commands up to one of these words, which stays.
    fn sequence(&mut self, ends: &[&str]) -> Vec<Command> {
        let (mut commands, mut after) = (Vec::new(), After::Any);
        while let Some(token) = self.tokens.peek() {
            match token {
                Token::Next(next) => {
                    after = *next;
                    self.tokens.next();
                }
                Token::Word(word) if ends.contains(&word.as_str()) => break,
                _ => {
                    let what = self.command();
                    let is_unknown = matches!(what, What::Unknown);
                    commands.push(Command { after, what });
                    if is_unknown {
                        // Where it ends is not known either.
                        self.tokens = Vec::new().into_iter().peekable();
                    }
                }
            }
        }
        commands
    }

    fn command(&mut self) -> What {
        let what = match self.tokens.peek() {
            Some(Token::Word(word)) if word == "if" => self.branch(),
            Some(Token::Word(word)) if word == "while" => self.cycle(),
            Some(Token::Word(word)) if UNKNOWN.contains(&word.as_str()) => None,
            _ => return self.plain(),
        };
        // A compound command whose output goes elsewhere, or that is followed by words, is not known.
        let is_whole = matches!(self.tokens.peek(), None | Some(Token::Next(_)));
        what.filter(|_| is_whole).unwrap_or(What::Unknown)
    }

    /// What begins with `if` or `elif`.
    fn branch(&mut self) -> Option<What> {
        self.tokens.next();
        let condition = self.sequence(&["then"]);
        self.tokens.next()?;
        let then = self.sequence(&["elif", "else", "fi"]);
        let otherwise = match self.tokens.peek()? {
            Token::Word(word) if word == "elif" => vec![Command { after: After::Any, what: self.branch()? }],
            Token::Word(word) if word == "else" => {
                self.tokens.next();
                let otherwise = self.sequence(&["fi"]);
                self.tokens.next()?;
                otherwise
            }
            _ => {
                self.tokens.next();
                Vec::new()
            }
        };
        Some(What::If { condition, then, otherwise })
    }

    /// What begins with `while`: known if it has no end.
    fn cycle(&mut self) -> Option<What> {
        self.tokens.next();
        let condition = self.sequence(&["do"]);
        self.tokens.next()?;
        let body = self.sequence(&["done"]);
        self.tokens.next();
        let [Command { what: What::Plain { words, .. }, .. }] = condition.as_slice() else { return None };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        matches!(words.as_slice(), ["true" | ":"] | ["[", "1", "]"]).then_some(What::Forever(body))
    }

    fn plain(&mut self) -> What {
        let (mut words, mut into) = (Vec::new(), None);
        while let Some(token) = self.tokens.next_if(|token| !matches!(token, Token::Next(_))) {
            match token {
                Token::Word(word) => words.push(word),
                Token::Into(file, appends) => into = Some((file, appends)),
                Token::Next(_) | Token::Nothing | Token::Unknown => return What::Unknown,
            }
        }
        What::Plain { words, into }
    }
}

enum Token {
    Word(String),
    Into(String, bool),
    Next(After),
    /// Something that makes no difference here.
    Nothing,
    /// Something that is not known here. Nothing follows it.
    Unknown,
}

/// The tokens of a script, up to the first that is not known here.
fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(&next) = rest.peek() {
        match next {
            ' ' | '\t' => {
                rest.next();
            }
            '#' => while rest.next_if(|next| *next != '\n').is_some() {},
            _ => match token(next, &mut rest) {
                Some(Token::Nothing) => {}
                Some(token) => tokens.push(token),
                None => {
                    tokens.push(Token::Unknown);
                    break;
                }
            },
        }
    }
    tokens
}

type Rest<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// The token that begins with a character; nothing if it is not known here.
fn token(first: char, rest: &mut Rest<'_>) -> Option<Token> {
    Some(match first {
        '\n' | ';' => {
            rest.next();
            Token::Next(After::Any)
        }
        '&' | '|' => {
            rest.next();
            // A command in the background and a pipe are not known.
            rest.next_if_eq(&first)?;
            Token::Next(if first == '&' { After::Success } else { After::Failure })
        }
        '>' => {
            rest.next();
            let appends = rest.next_if_eq(&'>').is_some();
            while rest.next_if_eq(&' ').is_some() {}
            Token::Into(word(rest)?, appends)
        }
        '(' | ')' | '<' | '`' => return None,
        _ => {
            let word = word(rest)?;
            // What goes wrong goes where all goes.
            if matches!(word.as_str(), "1" | "2") && rest.peek() == Some(&'>') {
                rest.next();
                rest.next_if_eq(&'&');
                self::word(rest)?;
                return Some(Token::Nothing);
            }
            Token::Word(word)
        }
    })
}

fn word(rest: &mut Rest<'_>) -> Option<String> {
    let mut word = String::new();
    while let Some(next) = rest.next_if(|next| !" \t\n;&|<>()".contains(*next)) {
        match next {
            '\'' => loop {
                match rest.next()? {
                    '\'' => break,
                    other => word.push(other),
                }
            },
            '"' => loop {
                match rest.next()? {
                    '"' => break,
                    '\\' => word.push(rest.next()?),
                    '`' => return None,
                    '$' if rest.peek() == Some(&'(') => return None,
                    other => word.push(other),
                }
            },
            '\\' => word.push(rest.next()?),
            '`' => return None,
            '$' if rest.peek() == Some(&'(') => return None,
            other => word.push(other),
        }
    }
    Some(word)
}
