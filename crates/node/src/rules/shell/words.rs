//! A script as a sequence of commands, as far as it is one.

/// When a command of a sequence runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    Any,
    Success,
    Failure,
}

pub(super) struct Command {
    pub after: After,
    pub words: Vec<String>,
    pub into: Option<(String, bool)>,
    /// What is done for ever, if it is that.
    pub forever: Option<String>,
}

impl Command {
    fn new(after: After) -> Command {
        Command { after, words: Vec::new(), into: None, forever: None }
    }
}

/// Words that begin something that is no plain sequence.
const COMPOUND: [&str; 9] = ["while", "until", "for", "if", "case", "function", "{", "(", "!"];

/// A script as a sequence of commands; nothing if it is more than that.
pub(super) fn split(text: &str) -> Option<Vec<Command>> {
    if let Some((before, body)) = endless(text) {
        let mut commands = split(before)?;
        commands.push(Command { forever: Some(body.to_owned()), ..Command::new(After::Any) });
        return Some(commands);
    }
    let mut commands = Vec::new();
    let mut command = Command::new(After::Any);
    for token in tokens(text)? {
        match token {
            Token::Word(word) => {
                if command.words.is_empty() && COMPOUND.contains(&word.as_str()) {
                    // What came before it still happens; then it goes on until it is stopped.
                    command.words.push(word);
                    commands.push(command);
                    return Some(commands);
                }
                command.words.push(word);
            }
            Token::Into(file, appends) => command.into = Some((file, appends)),
            Token::Next(after) => commands.push(std::mem::replace(&mut command, Command::new(after))),
        }
    }
    commands.push(command);
    commands.retain(|command| !command.words.is_empty() || command.into.is_some());
    Some(commands)
}

/// A script that ends in a loop without end: what comes before, and what is done in it.
fn endless(text: &str) -> Option<(&str, &str)> {
    let (before, rest) = text.split_once("while ")?;
    let is_start = matches!(before.trim_end().chars().last(), None | Some(';' | '\n' | '&'));
    let (test, rest) = rest.split_once("do")?;
    let is_true = matches!(test.trim_end_matches([';', '\n', ' ', '\t']).trim(), "true" | ":" | "[ 1 ]");
    let body = rest.trim_end().trim_end_matches(';').trim_end().strip_suffix("done")?;
    let body = body.trim_end_matches([';', '\n', ' ', '\t']);
    (is_start && is_true && !body.contains("done"))
        .then_some((before.trim_end_matches([' ', '&', ';']), body))
}

enum Token {
    Word(String),
    Into(String, bool),
    Next(After),
}

/// The tokens of a script; nothing if it has some that are not known here.
fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(&next) = rest.peek() {
        match next {
            ' ' | '\t' => {
                rest.next();
            }
            '\n' | ';' => {
                rest.next();
                tokens.push(Token::Next(After::Any));
            }
            '#' => while rest.next_if(|next| *next != '\n').is_some() {},
            '&' | '|' => {
                rest.next();
                // A command in the background or a pipe is more than a sequence.
                rest.next_if_eq(&next)?;
                tokens.push(Token::Next(if next == '&' { After::Success } else { After::Failure }));
            }
            '>' => {
                rest.next();
                let appends = rest.next_if_eq(&'>').is_some();
                while rest.next_if_eq(&' ').is_some() {}
                tokens.push(Token::Into(word(&mut rest)?, appends));
            }
            '(' | ')' | '<' | '`' => return None,
            _ => {
                let word = word(&mut rest)?;
                // What goes wrong goes where all goes.
                if matches!(word.as_str(), "1" | "2") && rest.peek() == Some(&'>') {
                    rest.next();
                    rest.next_if_eq(&'&');
                    self::word(&mut rest)?;
                } else {
                    tokens.push(Token::Word(word));
                }
            }
        }
    }
    Some(tokens)
}

fn word(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<String> {
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
