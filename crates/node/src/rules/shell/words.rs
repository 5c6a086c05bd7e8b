//! A script as a tree of commands, as far as they are known here.

use super::tokens::{Token, Word, tokens};

/// When a command of a sequence runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    Any,
    Success,
    Failure,
}

/// A command, and when it runs.
#[derive(Debug)]
pub(super) struct Command {
    pub after: After,
    /// Whether its failure counts as a success, and the other way round.
    pub negated: bool,
    pub what: What,
}

/// What a command is.
#[derive(Debug)]
pub(super) enum What {
    /// A program with its arguments; what it says goes into a file if one is named.
    Plain { words: Vec<Word>, into: Option<(Word, bool)> },
    /// One of two sequences, as a third one ends.
    If { condition: Vec<Command>, then: Vec<Command>, otherwise: Vec<Command> },
    /// A sequence, again and again without end.
    Forever(Vec<Command>),
    /// A sequence, once for each of some words.
    For { name: String, words: Vec<Word>, body: Vec<Command> },
    /// A sequence that goes on beside what follows.
    Beside(Vec<Command>),
    /// Something that is not known here.
    Unknown,
}

/// Words that begin something that is not known here.
const UNKNOWN: [&str; 5] = ["until", "case", "function", "{", "("];

/// How deep commands stand in one another at most. What stands deeper is not known: whoever goes through the tree calls
/// itself once for each level, and a stack is small.
const DEPTH_MAX: usize = 64;

/// The commands of a script. Nothing follows the first one that is not known.
pub(super) fn parse(text: &str) -> Vec<Command> {
    Parser { tokens: tokens(text).into_iter().peekable(), depth: 0 }.sequence(&[])
}

struct Parser {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
    /// In how many commands it is.
    depth: usize,
}

impl Parser {
    /// The commands up to one of these words, which stays.
    fn sequence(&mut self, ends: &[&str]) -> Vec<Command> {
        let (mut commands, mut after): (Vec<Command>, After) = (Vec::new(), After::Any);
        while let Some(token) = self.tokens.peek() {
            match token {
                Token::Next(next) => {
                    after = *next;
                    self.tokens.next();
                }
                Token::Beside => {
                    self.tokens.next();
                    // All that depends on one another goes together.
                    let from = commands.iter().rposition(|command| command.after == After::Any).unwrap_or(0);
                    let group = commands.split_off(from);
                    // Nothing came since the last of these: that is no script.
                    let is_known = group.iter().all(|command| !matches!(command.what, What::Beside(_)));
                    let what = if is_known { What::Beside(group) } else { self.unknown() };
                    commands.push(Command { after: After::Any, negated: false, what });
                    after = After::Any;
                }
                Token::Word(word) if word.plain().is_some_and(|word| ends.contains(&word)) => break,
                _ => {
                    let (negated, mut what) = self.command();
                    if matches!(what, What::Unknown) {
                        what = self.unknown();
                    }
                    commands.push(Command { after, negated, what });
                }
            }
        }
        commands
    }

    /// What is not known. Where it ends is not known either.
    fn unknown(&mut self) -> What {
        self.tokens = Vec::new().into_iter().peekable();
        What::Unknown
    }

    /// Reads something that has others in it, unless it stands too deep.
    fn inside(&mut self, read: impl FnOnce(&mut Parser) -> Option<What>) -> Option<What> {
        if self.depth == DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        let what = read(self);
        self.depth -= 1;
        what
    }

    /// The unquoted word that comes next.
    fn next_plain(&mut self) -> Option<&str> {
        match self.tokens.peek()? {
            Token::Word(word) => word.plain(),
            _ => None,
        }
    }

    fn command(&mut self) -> (bool, What) {
        let mut negated = false;
        while self.next_plain() == Some("!") {
            self.tokens.next();
            negated = !negated;
        }
        let what = match self.next_plain() {
            Some("if") => self.inside(Parser::branch),
            Some("while") => self.inside(Parser::cycle),
            Some("for") => self.inside(Parser::each),
            Some(word) if UNKNOWN.contains(&word) => None,
            _ => return (negated, self.plain()),
        };
        // A compound command whose output goes elsewhere, or that is followed by words, is not known.
        let is_whole = matches!(self.tokens.peek(), None | Some(Token::Next(_) | Token::Beside));
        (negated, what.filter(|_| is_whole).unwrap_or(What::Unknown))
    }

    /// What begins with `if` or `elif`.
    fn branch(&mut self) -> Option<What> {
        self.tokens.next();
        let condition = self.sequence(&["then"]);
        self.tokens.next()?;
        let then = self.sequence(&["elif", "else", "fi"]);
        let otherwise = match self.next_plain()? {
            "elif" => {
                let what = self.inside(Parser::branch)?;
                vec![Command { after: After::Any, negated: false, what }]
            }
            "else" => {
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
        let body = self.body()?;
        let [Command { negated: false, what: What::Plain { words, .. }, .. }] = condition.as_slice() else {
            return None;
        };
        let words: Vec<&str> = words.iter().map(Word::plain).collect::<Option<_>>()?;
        matches!(words.as_slice(), ["true" | ":"] | ["[", "1", "]"]).then_some(What::Forever(body))
    }

    /// What begins with `for`.
    fn each(&mut self) -> Option<What> {
        self.tokens.next();
        let name = self.next_plain()?.to_owned();
        self.tokens.next();
        if self.next_plain()? != "in" {
            return None;
        }
        self.tokens.next();
        let mut words = Vec::new();
        while let Some(token) = self.tokens.next_if(|token| !matches!(token, Token::Next(After::Any))) {
            match token {
                Token::Word(word) => words.push(word),
                _ => return None,
            }
        }
        while self.tokens.next_if(|token| matches!(token, Token::Next(After::Any))).is_some() {}
        if self.next_plain()? != "do" {
            return None;
        }
        Some(What::For { name, words, body: self.body()? })
    }

    /// What stands between `do`, which comes next, and `done`.
    fn body(&mut self) -> Option<Vec<Command>> {
        self.tokens.next()?;
        let body = self.sequence(&["done"]);
        self.tokens.next()?;
        Some(body)
    }

    fn plain(&mut self) -> What {
        let (mut words, mut into) = (Vec::new(), None);
        while let Some(token) = self.tokens.next_if(|token| !matches!(token, Token::Next(_) | Token::Beside))
        {
            match token {
                Token::Word(word) => words.push(word),
                Token::Into(file, appends) => into = Some((file, appends)),
                Token::Next(_) | Token::Beside | Token::Nothing | Token::Unknown => return What::Unknown,
            }
        }
        What::Plain { words, into }
    }
}
