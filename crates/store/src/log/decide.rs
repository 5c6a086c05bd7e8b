//! Admission of proposals: evaluates their preconditions in order.

use std::collections::BTreeMap;

use setpoint_api::{Key, Revision};

use super::{Heads, Verdict};
use crate::commit::{CHAIN_BYTES_MAX, CHAIN_COMMITS_MAX, Change, Conflict, Expect, Proposal, Refusal};

/// Decides each proposal against `heads` as changed by the proposals admitted before it. The first admitted
/// proposal gets the revision after `head`. A chain is admitted or rejected as a whole. If `puts` is false,
/// only proposals without puts are admitted.
pub fn decide(batch: &[Proposal], heads: &dyn Heads, head: Revision, puts: bool) -> Vec<Verdict> {
    let mut judge = Judge { heads, head, changed: BTreeMap::new() };
    let mut verdicts = Vec::with_capacity(batch.len());
    for together in batch.chunk_by(|proposal, _| proposal.linked) {
        match together {
            [alone] => verdicts.push(judge.verdict(alone, puts)),
            _ => judge.verdicts(together, puts, &mut verdicts),
        }
    }
    verdicts
}

struct Judge<'a> {
    heads: &'a dyn Heads,
    head: Revision,
    /// Keys that proposals of this batch have changed, with their new revisions.
    changed: BTreeMap<&'a Key, Option<Revision>>,
}

impl<'a> Judge<'a> {
    /// Decides one chain.
    fn verdicts(&mut self, together: &'a [Proposal], puts: bool, verdicts: &mut Vec<Verdict>) {
        let (before, first) = (self.head, verdicts.len());
        let keys = || together.iter().flat_map(|proposal| proposal.writes().map(|write| &write.key));
        let known: Vec<_> = keys().map(|key| self.changed.get(key).copied()).collect();
        let mut refused = None;
        let bytes: usize = together.iter().map(Proposal::bytes).sum();
        if together.len() > CHAIN_COMMITS_MAX {
            refused = Some(Refusal::TooManyCommits { commits: together.len() });
        } else if bytes > CHAIN_BYTES_MAX {
            refused = Some(Refusal::ChainTooLarge { bytes });
        }
        for proposal in together {
            match (&refused, self.verdict(proposal, puts)) {
                (None, Ok(revision)) => verdicts.push(Ok(revision)),
                (None, Err(refusal)) => refused = Some(refusal),
                (Some(_), _) => break,
            }
        }
        let Some(refusal) = refused else { return };
        // Revert the changes of the chain's first proposals.
        self.head = before;
        for (key, head) in keys().zip(known) {
            match head {
                Some(head) => self.changed.insert(key, head),
                None => self.changed.remove(key),
            };
        }
        verdicts.truncate(first);
        verdicts.extend(together.iter().map(|_| Err(refusal.clone())));
    }

    fn verdict(&mut self, proposal: &'a Proposal, puts: bool) -> Verdict {
        proposal.check_form()?;
        for (key, expect) in &proposal.guards {
            self.check(key, *expect)?;
        }
        for Change { expect, write } in &proposal.changes {
            self.check(&write.key, *expect)?;
            if write.body.is_none() {
                self.check(&write.key, Expect::Present)?;
            }
        }
        if !puts && !proposal.only_deletes() {
            return Err(Refusal::DiskFull);
        }
        self.head = self.head.next();
        for change in &proposal.changes {
            let head = change.write.body.is_some().then_some(self.head);
            self.changed.insert(&change.write.key, head);
        }
        Ok(self.head)
    }

    fn check(&self, key: &Key, expected: Expect) -> Result<(), Conflict> {
        if expected == Expect::Any {
            return Ok(());
        }
        let actual = self.changed.get(key).copied().unwrap_or_else(|| self.heads.head(key));
        if expected.holds(actual) { Ok(()) } else { Err(Conflict { key: key.clone(), expected, actual }) }
    }
}
