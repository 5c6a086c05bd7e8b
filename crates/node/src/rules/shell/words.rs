//! Parser of shell scripts into a tree of supported commands.

use super::tokens::{Token, Word, tokens};

/// Condition under which a command of a sequence runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    Any,
    Success,
    Failure,
}

/// Command of a sequence, with its condition.
#[derive(Debug)]
pub(super) struct Command {
    pub after: After,
    /// `true` if `!` inverts its exit code.
    pub negated: bool,
    pub what: What,
}

/// Kind of command.
#[derive(Debug)]
pub(super) enum What {
    /// Simple command, with an output redirection if there is one.
    Plain { words: Vec<Word>, into: Option<(Word, bool)> },
    /// `if` command.
    If { condition: Vec<Command>, then: Vec<Command>, otherwise: Vec<Command> },
    /// Infinite loop.
    Forever(Vec<Command>),
    /// `for` loop.
    For { name: String, words: Vec<Word>, body: Vec<Command> },
    /// Background job.
    Beside(Vec<Command>),
    /// Unsupported command.
    Unknown,
}

/// Words that begin an unsupported command.
const UNKNOWN: [&str; 5] = ["until", "case", "function", "{", "("];

/// Maximum nesting of commands. Deeper ones count as unsupported: the tree is evaluated recursively, on a
/// small stack.
const DEPTH_MAX: usize = 64;

/// Parses a script. The first unsupported command is the last one.
pub(super) fn parse(text: &str) -> Vec<Command> {
    Parser { tokens: tokens(text).into_iter().peekable(), depth: 0 }.sequence(&[])
}

struct Parser {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
    /// Current nesting of commands.
    depth: usize,
}

impl Parser {
    /// Parses commands up to one of the words in `ends`, which is not consumed.
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
                    // The whole `&&`/`||` list goes to the background.
                    let from = commands.iter().rposition(|command| command.after == After::Any).unwrap_or(0);
                    let group = commands.split_off(from);
                    // An empty background command is a syntax error.
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

    /// Returns an unsupported command and drops the rest, since its end is unknown.
    fn unknown(&mut self) -> What {
        self.tokens = Vec::new().into_iter().peekable();
        What::Unknown
    }

    /// Parses something nested, up to the maximum depth.
    fn inside(&mut self, read: impl FnOnce(&mut Parser) -> Option<What>) -> Option<What> {
        if self.depth == DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        let what = read(self);
        self.depth -= 1;
        what
    }

    /// Returns the next word if it is unquoted.
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
        // Compound commands with redirections or further words are not supported.
        let is_whole = matches!(self.tokens.peek(), None | Some(Token::Next(_) | Token::Beside));
        (negated, what.filter(|_| is_whole).unwrap_or(What::Unknown))
    }

    /// Parses from `if` or `elif` on.
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

    /// Parses a `while` loop; supported if it is infinite.
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

    /// Parses a `for` loop.
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

    /// Parses from `do` to `done`.
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
