//! Admission of proposals: evaluates their preconditions in order.

use std::collections::BTreeMap;

use setpoint_api::{Key, Revision};

use super::{CurrentRevisions, Verdict};
use crate::commit::{
    CHAIN_BYTES_MAX, CHAIN_COMMITS_MAX, ConditionalWrite, FailedPrecondition, Precondition, Proposal,
    RejectReason,
};

/// Decides each proposal against `current` as changed by the proposals admitted before it. The first admitted
/// proposal gets the revision after `last_revision`. A chain is admitted or rejected as a whole. If
/// `allow_puts` is false, only proposals without puts are admitted.
pub fn decide(
    batch: &[Proposal],
    current: &dyn CurrentRevisions,
    last_revision: Revision,
    allow_puts: bool,
) -> Vec<Verdict> {
    let mut admission = Admission { current, last_revision, changed: BTreeMap::new() };
    let mut verdicts = Vec::with_capacity(batch.len());
    for chain in batch.chunk_by(|proposal, _| proposal.linked) {
        match chain {
            [proposal] => verdicts.push(admission.decide(proposal, allow_puts)),
            _ => admission.decide_chain(chain, allow_puts, &mut verdicts),
        }
    }
    verdicts
}

struct Admission<'a> {
    current: &'a dyn CurrentRevisions,
    last_revision: Revision,
    /// Keys that proposals of this batch have changed, with their new revisions.
    changed: BTreeMap<&'a Key, Option<Revision>>,
}

impl<'a> Admission<'a> {
    /// Decides one chain.
    fn decide_chain(&mut self, chain: &'a [Proposal], allow_puts: bool, verdicts: &mut Vec<Verdict>) {
        let (before, first) = (self.last_revision, verdicts.len());
        let keys = || chain.iter().flat_map(|proposal| proposal.writes().map(|write| &write.key));
        let previous: Vec<_> = keys().map(|key| self.changed.get(key).copied()).collect();
        let mut rejection = None;
        let bytes: usize = chain.iter().map(Proposal::bytes).sum();
        if chain.len() > CHAIN_COMMITS_MAX {
            rejection = Some(RejectReason::TooManyCommits { commits: chain.len() });
        } else if bytes > CHAIN_BYTES_MAX {
            rejection = Some(RejectReason::ChainTooLarge { bytes });
        }
        for proposal in chain {
            match (&rejection, self.decide(proposal, allow_puts)) {
                (None, Ok(revision)) => verdicts.push(Ok(revision)),
                (None, Err(reason)) => rejection = Some(reason),
                (Some(_), _) => break,
            }
        }
        let Some(reason) = rejection else { return };
        // Revert the changes of the chain's first proposals.
        self.last_revision = before;
        for (key, revision) in keys().zip(previous) {
            match revision {
                Some(revision) => self.changed.insert(key, revision),
                None => self.changed.remove(key),
            };
        }
        verdicts.truncate(first);
        verdicts.extend(chain.iter().map(|_| Err(reason.clone())));
    }

    fn decide(&mut self, proposal: &'a Proposal, allow_puts: bool) -> Verdict {
        proposal.validate()?;
        for (key, precondition) in &proposal.guards {
            self.check(key, *precondition)?;
        }
        for ConditionalWrite { precondition, write } in &proposal.changes {
            self.check(&write.key, *precondition)?;
            if write.body.is_none() {
                self.check(&write.key, Precondition::Present)?;
            }
        }
        if !allow_puts && !proposal.only_deletes() {
            return Err(RejectReason::DiskFull);
        }
        self.last_revision = self.last_revision.next();
        for change in &proposal.changes {
            let revision = change.write.body.is_some().then_some(self.last_revision);
            self.changed.insert(&change.write.key, revision);
        }
        Ok(self.last_revision)
    }

    fn check(&self, key: &Key, expected: Precondition) -> Result<(), FailedPrecondition> {
        if expected == Precondition::Any {
            return Ok(());
        }
        let actual = self.changed.get(key).copied().unwrap_or_else(|| self.current.current_revision(key));
        if expected.holds(actual) {
            Ok(())
        } else {
            Err(FailedPrecondition { key: key.clone(), expected, actual })
        }
    }
}
