//! Parser of shell scripts into a tree of supported commands.

use super::tokenizer::{Token, Word, tokenize};

/// Condition under which a command of a sequence runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunCondition {
    Always,
    OnSuccess,
    OnFailure,
}

/// Command of a sequence, with its condition.
#[derive(Debug)]
pub(super) struct Command {
    pub condition: RunCondition,
    /// `true` if `!` inverts its exit code.
    pub is_negated: bool,
    pub kind: CommandKind,
}

/// Kind of command.
#[derive(Debug)]
pub(super) enum CommandKind {
    /// Simple command, with an output redirection if there is one.
    Simple { words: Vec<Word>, redirection: Option<(Word, bool)> },
    /// `if` command.
    If { condition: Vec<Command>, then: Vec<Command>, otherwise: Vec<Command> },
    /// Infinite loop.
    InfiniteLoop(Vec<Command>),
    /// `for` loop.
    For { name: String, words: Vec<Word>, body: Vec<Command> },
    /// Background job.
    Background(Vec<Command>),
    /// Unsupported command.
    Unsupported,
}

/// Words that begin an unsupported command.
const UNSUPPORTED: [&str; 5] = ["until", "case", "function", "{", "("];

/// Maximum nesting of commands. Deeper ones count as unsupported: the tree is evaluated recursively, on a
/// small stack.
const DEPTH_MAX: usize = 64;

/// Parses a script. The first unsupported command is the last one.
pub(super) fn parse(text: &str) -> Vec<Command> {
    Parser { tokens: tokenize(text).into_iter().peekable(), depth: 0 }.sequence(&[])
}

struct Parser {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
    /// Current nesting of commands.
    depth: usize,
}

impl Parser {
    /// Parses commands up to one of the words in `ends`, which is not consumed.
    fn sequence(&mut self, ends: &[&str]) -> Vec<Command> {
        let (mut commands, mut condition): (Vec<Command>, RunCondition) = (Vec::new(), RunCondition::Always);
        while let Some(token) = self.tokens.peek() {
            match token {
                Token::Separator(next) => {
                    condition = *next;
                    self.tokens.next();
                }
                Token::Background => {
                    self.tokens.next();
                    // The whole `&&`/`||` list goes to the background.
                    let from = commands
                        .iter()
                        .rposition(|command| command.condition == RunCondition::Always)
                        .unwrap_or(0);
                    let group = commands.split_off(from);
                    // An empty background command is a syntax error.
                    let is_supported =
                        group.iter().all(|command| !matches!(command.kind, CommandKind::Background(_)));
                    let kind = if is_supported { CommandKind::Background(group) } else { self.unsupported() };
                    commands.push(Command { condition: RunCondition::Always, is_negated: false, kind });
                    condition = RunCondition::Always;
                }
                Token::Word(word) if word.literal().is_some_and(|word| ends.contains(&word)) => break,
                _ => {
                    let (is_negated, mut kind) = self.command();
                    if matches!(kind, CommandKind::Unsupported) {
                        kind = self.unsupported();
                    }
                    commands.push(Command { condition, is_negated, kind });
                }
            }
        }
        commands
    }

    /// Returns an unsupported command and drops the rest, since its end is unknown.
    fn unsupported(&mut self) -> CommandKind {
        self.tokens = Vec::new().into_iter().peekable();
        CommandKind::Unsupported
    }

    /// Parses something nested, up to the maximum depth.
    fn nested(&mut self, read: impl FnOnce(&mut Parser) -> Option<CommandKind>) -> Option<CommandKind> {
        if self.depth == DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        let kind = read(self);
        self.depth -= 1;
        kind
    }

    /// Returns the next word if it is unquoted.
    fn next_literal(&mut self) -> Option<&str> {
        match self.tokens.peek()? {
            Token::Word(word) => word.literal(),
            _ => None,
        }
    }

    fn command(&mut self) -> (bool, CommandKind) {
        let mut is_negated = false;
        while self.next_literal() == Some("!") {
            self.tokens.next();
            is_negated = !is_negated;
        }
        let kind = match self.next_literal() {
            Some("if") => self.nested(Parser::if_command),
            Some("while") => self.nested(Parser::while_loop),
            Some("for") => self.nested(Parser::for_loop),
            Some(word) if UNSUPPORTED.contains(&word) => None,
            _ => return (is_negated, self.simple_command()),
        };
        // Compound commands with redirections or further words are not supported.
        let ends_here = matches!(self.tokens.peek(), None | Some(Token::Separator(_) | Token::Background));
        (is_negated, kind.filter(|_| ends_here).unwrap_or(CommandKind::Unsupported))
    }

    /// Parses from `if` or `elif` on.
    fn if_command(&mut self) -> Option<CommandKind> {
        self.tokens.next();
        let condition = self.sequence(&["then"]);
        self.tokens.next()?;
        let then = self.sequence(&["elif", "else", "fi"]);
        let otherwise = match self.next_literal()? {
            "elif" => {
                let kind = self.nested(Parser::if_command)?;
                vec![Command { condition: RunCondition::Always, is_negated: false, kind }]
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
        Some(CommandKind::If { condition, then, otherwise })
    }

    /// Parses a `while` loop; supported if it is infinite.
    fn while_loop(&mut self) -> Option<CommandKind> {
        self.tokens.next();
        let condition = self.sequence(&["do"]);
        let body = self.loop_body()?;
        let [Command { is_negated: false, kind: CommandKind::Simple { words, .. }, .. }] =
            condition.as_slice()
        else {
            return None;
        };
        let words: Vec<&str> = words.iter().map(Word::literal).collect::<Option<_>>()?;
        matches!(words.as_slice(), ["true" | ":"] | ["[", "1", "]"])
            .then_some(CommandKind::InfiniteLoop(body))
    }

    /// Parses a `for` loop.
    fn for_loop(&mut self) -> Option<CommandKind> {
        self.tokens.next();
        let name = self.next_literal()?.to_owned();
        self.tokens.next();
        if self.next_literal()? != "in" {
            return None;
        }
        self.tokens.next();
        let mut words = Vec::new();
        while let Some(token) =
            self.tokens.next_if(|token| !matches!(token, Token::Separator(RunCondition::Always)))
        {
            match token {
                Token::Word(word) => words.push(word),
                _ => return None,
            }
        }
        while self.tokens.next_if(|token| matches!(token, Token::Separator(RunCondition::Always))).is_some() {
        }
        if self.next_literal()? != "do" {
            return None;
        }
        Some(CommandKind::For { name, words, body: self.loop_body()? })
    }

    /// Parses from `do` to `done`.
    fn loop_body(&mut self) -> Option<Vec<Command>> {
        self.tokens.next()?;
        let body = self.sequence(&["done"]);
        self.tokens.next()?;
        Some(body)
    }

    fn simple_command(&mut self) -> CommandKind {
        let (mut words, mut redirection) = (Vec::new(), None);
        while let Some(token) =
            self.tokens.next_if(|token| !matches!(token, Token::Separator(_) | Token::Background))
        {
            match token {
                Token::Word(word) => words.push(word),
                Token::Redirect(file, is_append) => redirection = Some((file, is_append)),
                Token::Separator(_) | Token::Background | Token::Ignored | Token::Unsupported => {
                    return CommandKind::Unsupported;
                }
            }
        }
        CommandKind::Simple { words, redirection }
    }
}
