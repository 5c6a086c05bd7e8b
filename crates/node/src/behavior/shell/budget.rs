//! Budget of script evaluation. Any client may write a script, and it is evaluated in the process that serves
//! all clients, so its cost is bounded.

/// Maximum number of commands evaluated. The result of a longer script is unknown.
const COMMANDS_MAX: u32 = 10_000;
/// Maximum bytes read and copied.
const PROCESSED_BYTES_MAX: usize = 8 << 20;
/// Maximum bytes of the result: output, and every state of the files.
const RESULT_BYTES_MAX: usize = 1 << 20;
/// Cost of an item besides its bytes.
const ITEM_COST: usize = 16;

/// Number of full budgets per pod; the scripts of a pod with more get equal shares. Pods are synced in the
/// loop that serves all controllers.
const SCRIPTS_MAX: u32 = 5;

/// Remaining budget of a script. Once an operation exceeds it, all further ones do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Budget {
    commands: u32,
    processed_bytes: usize,
    result_bytes: usize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::per_script(1)
    }
}

impl Budget {
    /// Returns the full budget of one script.
    pub fn new() -> Budget {
        Budget {
            commands: COMMANDS_MAX,
            processed_bytes: PROCESSED_BYTES_MAX,
            result_bytes: RESULT_BYTES_MAX,
        }
    }

    /// Returns the share of each of a pod's scripts. It covers all evaluations of the script: earlier runs,
    /// and every state of the files that a probe reads.
    pub fn per_script(scripts: usize) -> Budget {
        let count = u32::try_from(scripts.max(1)).unwrap_or(u32::MAX);
        let bytes = |max: usize| max * SCRIPTS_MAX as usize / scripts.max(1);
        Budget {
            commands: COMMANDS_MAX * SCRIPTS_MAX / count,
            processed_bytes: bytes(PROCESSED_BYTES_MAX),
            result_bytes: bytes(RESULT_BYTES_MAX),
        }
    }

    /// Returns the maximum bytes of a container's variables and arguments; `max` applies to a single script.
    pub fn argument_bytes(scripts: usize, max: usize) -> usize {
        max.min(max * SCRIPTS_MAX as usize / scripts.max(1))
    }

    /// Returns the part of a share that one evaluation may use.
    pub fn per_evaluation(self) -> Budget {
        let Budget { commands, processed_bytes, result_bytes } = Budget::new();
        Budget {
            commands: self.commands.min(commands),
            processed_bytes: self.processed_bytes.min(processed_bytes),
            result_bytes: self.result_bytes.min(result_bytes),
        }
    }

    /// Deducts the cost of an evaluation, given its budget before and after. Its result is dropped, so the
    /// next one may keep as many bytes.
    pub fn charge_evaluation(&mut self, before: Budget, after: Budget) {
        self.commands = self.commands.saturating_sub(before.commands - after.commands);
        self.processed_bytes =
            self.processed_bytes.saturating_sub(before.processed_bytes - after.processed_bytes);
        // An evaluation that exceeded less than a full budget has used up the share.
        self.exhaust_unless(!after.is_exhausted() || before == Budget::new());
    }

    /// `true` if the budget is used up.
    pub fn is_exhausted(&self) -> bool {
        self.processed_bytes == 0
    }

    /// Charges a command. Returns `false` if it exceeds the budget, as do the other charges.
    pub fn charge_command(&mut self) -> bool {
        let left = self.commands.checked_sub(1);
        self.commands = left.unwrap_or(0);
        self.exhaust_unless(left.is_some())
    }

    /// Charges bytes that are read or copied.
    pub fn charge_bytes(&mut self, bytes: usize) -> bool {
        let left = self.processed_bytes.checked_sub(bytes.saturating_add(ITEM_COST));
        self.processed_bytes = left.unwrap_or(0);
        !self.is_exhausted()
    }

    /// Charges bytes of the result.
    pub fn charge_result(&mut self, bytes: usize) -> bool {
        let left = self.result_bytes.checked_sub(bytes.saturating_add(ITEM_COST));
        self.result_bytes = left.unwrap_or(0);
        self.exhaust_unless(left.is_some())
    }

    /// Returns the bytes that the result may still use.
    pub fn result_bytes_left(&self) -> usize {
        self.result_bytes
    }

    fn exhaust_unless(&mut self, is_within_budget: bool) -> bool {
        if !is_within_budget {
            self.processed_bytes = 0;
        }
        !self.is_exhausted()
    }
}

/// Returns the cost of texts.
pub(super) fn cost_of<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    texts.map(|text| text.len() + ITEM_COST).sum()
}
