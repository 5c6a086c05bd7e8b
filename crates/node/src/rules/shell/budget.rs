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

/// Scripts of the longest kind that a pod may have; the scripts of one with more get equal shares of this. A pod is
/// looked at in the loop that serves all controllers.
const SCRIPTS_MAX: u32 = 5;

/// What may still be done for a script. Once something could not be afforded, nothing can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Budget {
    commands: u32,
    handled: usize,
    kept: usize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::share(1)
    }
}

impl Budget {
    /// One of which nothing is spent.
    pub fn new() -> Budget {
        Budget { commands: COMMANDS_MAX, handled: HANDLED_MAX, kept: KEPT_MAX }
    }

    /// The share of each script of a pod with so many of them, for all that is gone through for its sake: earlier runs,
    /// and every state of its files that a probe finds.
    pub fn share(scripts: usize) -> Budget {
        let count = u32::try_from(scripts.max(1)).unwrap_or(u32::MAX);
        let bytes = |max: usize| max * SCRIPTS_MAX as usize / scripts.max(1);
        Budget {
            commands: COMMANDS_MAX * SCRIPTS_MAX / count,
            handled: bytes(HANDLED_MAX),
            kept: bytes(KEPT_MAX),
        }
    }

    /// Bytes that the variables and words of a container take at most, of so many for a container alone.
    pub fn room(scripts: usize, max: usize) -> usize {
        max.min(max * SCRIPTS_MAX as usize / scripts.max(1))
    }

    /// The part of a share that goes to one script.
    pub fn limit(self) -> Budget {
        let Budget { commands, handled, kept } = Budget::new();
        Budget {
            commands: self.commands.min(commands),
            handled: self.handled.min(handled),
            kept: self.kept.min(kept),
        }
    }

    /// Takes off what a script took that was given so much and left so much of it. What it keeps is dropped again with
    /// its result, so the next one may keep as much.
    pub fn spend(&mut self, given: Budget, left: Budget) {
        self.commands = self.commands.saturating_sub(given.commands - left.commands);
        self.handled = self.handled.saturating_sub(given.handled - left.handled);
        // A script that was given less than any script may have has come to the end of the share.
        self.settle(!left.is_spent() || given == Budget::new());
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
    pub fn kept(&self) -> usize {
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
