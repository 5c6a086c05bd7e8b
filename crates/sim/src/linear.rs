//! Is there one order that explains what many threads saw?
//!
//! A history of one register is *linearizable* if its operations can be put in one order that keeps to real time
//! (what was answered before another was invoked comes first) and in which every answer is what a lone client
//! would have got. [`check`] searches for such an order: Wing and Gong's search, with Lowe's memory of the states
//! it has been in. [`check_order`] asks the simpler question for what already carries a number.
//!
//! Instants are ticks of one shared counter ([`Ticks`]), not times: they order what threads did, exactly.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;

/// The counter that orders invocations and answers.
#[derive(Debug, Default)]
pub struct Ticks(AtomicU64);

impl Ticks {
    /// The next instant.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// What a register holds: a number that stands for a value, or nothing.
pub type State = Option<u64>;

/// What a client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// What is there?
    Get,
    /// Put this, whatever is there.
    Put(u64),
    /// Put this if that is there.
    Swap {
        /// What must be there.
        expected: State,
        /// What is to be put.
        new: u64,
    },
    /// Delete if there is anything.
    Delete,
    /// Delete if this is there.
    DeleteIf(u64),
}

/// What a client was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A get found this.
    Found(State),
    /// It was done.
    Done,
    /// It was not done, for this was there.
    Refused(State),
    /// Nothing: it may have been done, may yet be, or never will.
    Unknown,
}

/// One operation of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What was asked.
    pub call: Call,
    /// What was answered.
    pub answer: Answer,
    /// When it was asked.
    pub invoked: u64,
    /// When it was answered; ignored if the answer is [`Answer::Unknown`].
    pub answered: u64,
}

impl Operation {
    /// The state after it, if in `state` it is answered as it was.
    fn apply(&self, state: State) -> Option<State> {
        let (allowed, after) = match self.call {
            Call::Get => return (self.answer == Answer::Found(state)).then_some(state),
            Call::Put(new) => (true, Some(new)),
            Call::Swap { expected, new } => (state == expected, Some(new)),
            Call::Delete => (state.is_some(), None),
            Call::DeleteIf(expected) => (state == Some(expected), None),
        };
        match self.answer {
            Answer::Done => allowed.then_some(after),
            Answer::Refused(found) => (!allowed && found == state).then_some(state),
            Answer::Unknown => Some(if allowed { after } else { state }),
            Answer::Found(_) => None,
        }
    }

    fn deadline(&self) -> u64 {
        if self.answer == Answer::Unknown { u64::MAX } else { self.answered }
    }
}

/// No order explains a history.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{placed} operations can be ordered and leave {state:?}; none of these can come next: {}", List(.stuck))]
pub struct NotLinearizable {
    /// How many operations the longest order holds that could be found.
    pub placed: usize,
    /// What the register holds after them.
    pub state: State,
    /// The operations of which one would have to come next.
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

/// Finds an order of the operations of one register, which at first holds nothing, as indexes into `history`.
///
/// # Errors
/// If there is none.
pub fn check(history: &[Operation]) -> Result<Vec<usize>, NotLinearizable> {
    Search::new(history).run()
}

struct Search<'a> {
    history: &'a [Operation],
    /// Indexes by the instant of invocation.
    by_invocation: Vec<usize>,
    /// A bit for each operation that is placed.
    placed: Vec<u64>,
    state: State,
    /// What is placed, in order, with the state before it.
    order: Vec<(usize, State)>,
    /// Where the search has been: coming there again leads nowhere new.
    seen: BTreeSet<(Vec<u64>, State)>,
}

impl<'a> Search<'a> {
    fn new(history: &'a [Operation]) -> Search<'a> {
        let mut by_invocation: Vec<usize> = (0..history.len()).collect();
        by_invocation.sort_by_key(|at| history[*at].invoked);
        Search {
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
        // For every depth the candidates that are still to be tried.
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

    /// Whether all is placed that was answered.
    fn is_complete(&self) -> bool {
        (0..self.history.len()).all(|at| self.is_placed(at) || self.history[at].answer == Answer::Unknown)
    }

    /// The operations that may come next: those that were invoked before any other that is left was answered.
    /// The last one is to be tried first: it is the one invoked first.
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

    fn place(&mut self, at: usize, after: State) {
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

/// Something that has a place in an order, and when it was asked for and answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its place.
    pub place: u64,
    /// When it was asked for.
    pub invoked: u64,
    /// When it was answered.
    pub answered: u64,
}

/// Says whether places agree with real time: what was answered before another was invoked is not placed after it.
///
/// # Errors
/// Two marks that disagree, the one that came first in real time first.
pub fn check_order(marks: &[Mark]) -> Result<(), (Mark, Mark)> {
    let mut marks = marks.to_vec();
    marks.sort_by_key(|mark| std::cmp::Reverse(mark.place));
    // Of all marks with a greater place, the one that was answered first.
    let mut earliest: Option<Mark> = None;
    for same_place in marks.chunk_by(|a, b| a.place == b.place) {
        for mark in same_place {
            if let Some(later) = earliest
                && later.answered < mark.invoked
            {
                return Err((later, *mark));
            }
        }
        let first = same_place.iter().copied().chain(earliest).min_by_key(|mark| mark.answered);
        earliest = first;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
