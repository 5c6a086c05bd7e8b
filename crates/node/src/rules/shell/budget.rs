//! Budget of script evaluation. Any client may write a script, and it is evaluated in the process that serves
//! all clients, so its cost is bounded.

/// Maximum number of commands evaluated. A longer script is taken to run until it is stopped.
const COMMANDS_MAX: u32 = 10_000;
/// Maximum bytes read and copied.
const HANDLED_MAX: usize = 8 << 20;
/// Maximum bytes of the result: output, and every state of the files.
const KEPT_MAX: usize = 1 << 20;
/// Cost of an item besides its bytes.
const EACH: usize = 16;

/// Number of full budgets per pod; the scripts of a pod with more get equal shares. Pods are synced in the
/// loop that serves all controllers.
const SCRIPTS_MAX: u32 = 5;

/// Remaining budget of a script. Once an operation exceeds it, all further ones do.
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
    /// Returns the full budget of one script.
    pub fn new() -> Budget {
        Budget { commands: COMMANDS_MAX, handled: HANDLED_MAX, kept: KEPT_MAX }
    }

    /// Returns the share of each of a pod's scripts. It covers all evaluations of the script: earlier runs,
    /// and every state of the files that a probe reads.
    pub fn share(scripts: usize) -> Budget {
        let count = u32::try_from(scripts.max(1)).unwrap_or(u32::MAX);
        let bytes = |max: usize| max * SCRIPTS_MAX as usize / scripts.max(1);
        Budget {
            commands: COMMANDS_MAX * SCRIPTS_MAX / count,
            handled: bytes(HANDLED_MAX),
            kept: bytes(KEPT_MAX),
        }
    }

    /// Returns the maximum bytes of a container's variables and arguments; `max` applies to a single script.
    pub fn room(scripts: usize, max: usize) -> usize {
        max.min(max * SCRIPTS_MAX as usize / scripts.max(1))
    }

    /// Returns the part of a share that one evaluation may use.
    pub fn limit(self) -> Budget {
        let Budget { commands, handled, kept } = Budget::new();
        Budget {
            commands: self.commands.min(commands),
            handled: self.handled.min(handled),
            kept: self.kept.min(kept),
        }
    }

    /// Deducts the cost of an evaluation, given its budget before and after. Its result is dropped, so the
    /// next one may keep as many bytes.
    pub fn spend(&mut self, given: Budget, left: Budget) {
        self.commands = self.commands.saturating_sub(given.commands - left.commands);
        self.handled = self.handled.saturating_sub(given.handled - left.handled);
        // An evaluation that exceeded less than a full budget has used up the share.
        self.settle(!left.is_spent() || given == Budget::new());
    }

    /// `true` if the budget is used up.
    pub fn is_spent(&self) -> bool {
        self.handled == 0
    }

    /// Charges a command. Returns `false` if it exceeds the budget, as do the other charges.
    pub fn command(&mut self) -> bool {
        let left = self.commands.checked_sub(1);
        self.commands = left.unwrap_or(0);
        self.settle(left.is_some())
    }

    /// Charges bytes that are read or copied.
    pub fn handle(&mut self, bytes: usize) -> bool {
        let left = self.handled.checked_sub(bytes.saturating_add(EACH));
        self.handled = left.unwrap_or(0);
        !self.is_spent()
    }

    /// Charges bytes of the result.
    pub fn keep(&mut self, bytes: usize) -> bool {
        let left = self.kept.checked_sub(bytes.saturating_add(EACH));
        self.kept = left.unwrap_or(0);
        self.settle(left.is_some())
    }

    /// Returns the bytes that the result may still use.
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

/// Returns the cost of texts.
pub(super) fn cost<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    texts.map(|text| text.len() + EACH).sum()
}
