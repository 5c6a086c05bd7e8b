//! Linearizability checker for histories of one register.
//!
//! A history is *linearizable* if its operations have one total order that respects real time (an operation that was
//! answered before another was invoked comes first) and in which every answer is what a single client would get.
//! [`check`] searches for such an order by the algorithm of Wing and Gong, with Lowe's cache of visited states.
//! [`check_order`] checks operations that already have a position in an order.
//!
//! Instants are values of one shared counter ([`Ticks`]), not times, so they order the actions of all threads exactly.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;

/// Counter that orders invocations and answers.
#[derive(Debug, Default)]
pub struct Ticks(AtomicU64);

impl Ticks {
    /// Returns the next instant.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// State of a register: a number that stands for a value, or nothing.
pub type RegisterState = Option<u64>;

/// Operation that a client invokes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Reads the register.
    Get,
    /// Writes unconditionally.
    Put(u64),
    /// Compare-and-swap.
    Swap {
        /// State that must be present.
        expected: RegisterState,
        /// Value to write.
        new: u64,
    },
    /// Deletes a value, if there is one.
    Delete,
    /// Deletes this value.
    DeleteIf(u64),
}

/// Answer to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// State that a `Get` found.
    Found(RegisterState),
    /// The operation took effect.
    Done,
    /// The operation had no effect, because the register had this state.
    Rejected(RegisterState),
    /// No answer: the operation may have taken effect, may still, or never will.
    Unknown,
}

/// Operation of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The invocation.
    pub call: Call,
    /// The answer.
    pub answer: Answer,
    /// Instant of the invocation.
    pub invoked: u64,
    /// Instant of the answer; ignored for [`Answer::Unknown`].
    pub answered: u64,
}

impl Operation {
    /// Returns the state after the operation, if its answer is possible in `state`.
    fn apply(&self, state: RegisterState) -> Option<RegisterState> {
        let (allowed, after) = match self.call {
            Call::Get => return (self.answer == Answer::Found(state)).then_some(state),
            Call::Put(new) => (true, Some(new)),
            Call::Swap { expected, new } => (state == expected, Some(new)),
            Call::Delete => (state.is_some(), None),
            Call::DeleteIf(expected) => (state == Some(expected), None),
        };
        match self.answer {
            Answer::Done => allowed.then_some(after),
            Answer::Rejected(found) => (!allowed && found == state).then_some(state),
            Answer::Unknown => Some(if allowed { after } else { state }),
            Answer::Found(_) => None,
        }
    }

    fn deadline(&self) -> u64 {
        if self.answer == Answer::Unknown { u64::MAX } else { self.answered }
    }
}

/// A history without a valid order.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{placed} operations can be ordered and leave {state:?}; none of these can come next: {}", List(.stuck))]
pub struct NotLinearizable {
    /// Number of operations in the longest partial order that was found.
    pub placed: usize,
    /// State after those operations.
    pub state: RegisterState,
    /// Operations of which one would have to come next.
    pub stuck: Vec<Operation>,
}

struct List<'a>(&'a [Operation]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Operation { call, answer, invoked, answered } in self.0 {
            write!(f, "\n  [{invoked}, {answered}] {call:?} -> {answer:?}")?;
        }
        Ok(())
    }
}

/// Finds an order of the operations on one register, which is empty at first. Returns indexes into `history`.
///
/// # Errors
/// If there is no such order.
pub fn check(history: &[Operation]) -> Result<Vec<usize>, NotLinearizable> {
    OrderSearch::new(history).run()
}

struct OrderSearch<'a> {
    history: &'a [Operation],
    /// Indexes in order of invocation.
    by_invocation: Vec<usize>,
    /// One bit per operation: set if it is placed.
    placed: Vec<u64>,
    state: RegisterState,
    /// Placed operations in order, each with the state before it.
    order: Vec<(usize, RegisterState)>,
    /// Visited combinations of placed operations and state: visiting one again leads nowhere new.
    seen: BTreeSet<(Vec<u64>, RegisterState)>,
}

impl<'a> OrderSearch<'a> {
    fn new(history: &'a [Operation]) -> OrderSearch<'a> {
        let mut by_invocation: Vec<usize> = (0..history.len()).collect();
        by_invocation.sort_by_key(|at| history[*at].invoked);
        OrderSearch {
            history,
            by_invocation,
            placed: vec![0; history.len().div_ceil(64)],
            state: None,
            order: Vec::new(),
            seen: BTreeSet::new(),
        }
    }

    fn run(mut self) -> Result<Vec<usize>, NotLinearizable> {
        let mut best = self.failure();
        // Candidates that remain to be tried, for each depth.
        let mut untried = vec![self.candidates()];
        while let Some(candidates) = untried.last_mut() {
            if self.is_complete() {
                return Ok(self.order.into_iter().map(|(at, _)| at).collect());
            }
            let Some(at) = candidates.pop() else {
                untried.pop();
                self.take_back();
                continue;
            };
            let Some(after) = self.history[at].apply(self.state) else { continue };
            self.place(at, after);
            if self.seen.insert((self.placed.clone(), self.state)) {
                if self.order.len() > best.placed {
                    best = self.failure();
                }
                untried.push(self.candidates());
            } else {
                self.take_back();
            }
        }
        Err(best)
    }

    /// `true` if every operation with an answer is placed.
    fn is_complete(&self) -> bool {
        (0..self.history.len()).all(|at| self.is_placed(at) || self.history[at].answer == Answer::Unknown)
    }

    /// Returns the operations that may come next: those invoked before any remaining one was answered. In reverse
    /// order of invocation, since the last one is tried first.
    fn candidates(&self) -> Vec<usize> {
        let mut candidates = Vec::new();
        let mut first_answer = u64::MAX;
        for at in self.by_invocation.iter().copied().filter(|at| !self.is_placed(*at)) {
            if self.history[at].invoked > first_answer {
                break;
            }
            first_answer = first_answer.min(self.history[at].deadline());
            candidates.push(at);
        }
        candidates.reverse();
        candidates
    }

    fn failure(&self) -> NotLinearizable {
        let mut stuck: Vec<Operation> = self.candidates().into_iter().map(|at| self.history[at]).collect();
        stuck.reverse();
        NotLinearizable { placed: self.order.len(), state: self.state, stuck }
    }

    fn is_placed(&self, at: usize) -> bool {
        self.placed[at / 64] & (1 << (at % 64)) != 0
    }

    fn place(&mut self, at: usize, after: RegisterState) {
        self.placed[at / 64] |= 1 << (at % 64);
        self.order.push((at, self.state));
        self.state = after;
    }

    fn take_back(&mut self) {
        if let Some((at, before)) = self.order.pop() {
            self.placed[at / 64] &= !(1 << (at % 64));
            self.state = before;
        }
    }
}

/// Operation with a known position in an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderedOperation {
    /// Position in the order.
    pub position: u64,
    /// Instant of the invocation.
    pub invoked: u64,
    /// Instant of the answer.
    pub answered: u64,
}

/// Checks that positions respect real time: an operation that was answered before another was invoked has no higher
/// position.
///
/// # Errors
/// Two operations that violate it, the earlier one in real time first.
pub fn check_order(operations: &[OrderedOperation]) -> Result<(), (OrderedOperation, OrderedOperation)> {
    let mut operations = operations.to_vec();
    operations.sort_by_key(|operation| std::cmp::Reverse(operation.position));
    // Among operations with a higher position, the one that was answered first.
    let mut earliest: Option<OrderedOperation> = None;
    for same_position in operations.chunk_by(|a, b| a.position == b.position) {
        for operation in same_position {
            if let Some(later) = earliest
                && later.answered < operation.invoked
            {
                return Err((later, *operation));
            }
        }
        let first = same_position.iter().copied().chain(earliest).min_by_key(|operation| operation.answered);
        earliest = first;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
