//! How far a script is followed: a script is a few words that anybody may write, and what it comes to is reckoned in
//! the process that serves everybody.

/// How many commands are gone through. A script that is longer goes on for longer than anybody looks.
const COMMANDS_MAX: u32 = 10_000;
/// How many bytes are read and copied on the way.
const HANDLED_MAX: usize = 8 << 20;
/// How many bytes are left of a script: what it says, and every state of its files.
const KEPT_MAX: usize = 1 << 20;
/// What anything costs besides its bytes.
const EACH: usize = 16;

/// What may still be done for a script. Once something could not be afforded, nothing can.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    commands: u32,
    handled: usize,
    kept: usize,
}

impl Budget {
    /// One of which nothing is spent.
    pub fn new() -> Budget {
        Budget { commands: COMMANDS_MAX, handled: HANDLED_MAX, kept: KEPT_MAX }
    }

    /// Whether the script can be followed no further.
    pub fn is_spent(&self) -> bool {
        self.handled == 0
    }

    /// Goes through a command. Says whether that can be afforded, as the others do.
    pub fn command(&mut self) -> bool {
        let left = self.commands.checked_sub(1);
        self.commands = left.unwrap_or(0);
        self.settle(left.is_some())
    }

    /// Reads or copies some bytes.
    pub fn handle(&mut self, bytes: usize) -> bool {
        let left = self.handled.checked_sub(bytes.saturating_add(EACH));
        self.handled = left.unwrap_or(0);
        !self.is_spent()
    }

    /// Keeps some bytes.
    pub fn keep(&mut self, bytes: usize) -> bool {
        let left = self.kept.checked_sub(bytes.saturating_add(EACH));
        self.kept = left.unwrap_or(0);
        self.settle(left.is_some())
    }

    /// How many bytes can be kept.
    pub fn room(&self) -> usize {
        self.kept
    }

    fn settle(&mut self, is_afforded: bool) -> bool {
        if !is_afforded {
            self.handled = 0;
        }
        !self.is_spent()
    }
}

/// What some texts cost.
pub(super) fn cost<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    texts.map(|text| text.len() + EACH).sum()
}
