//! Who gets in: preconditions, judged in order.

use std::collections::BTreeMap;

use setpoint_api::{Key, Revision};

use super::{Heads, Verdict};
use crate::commit::{Conflict, Expect, Proposal, Refusal};

/// Judges each proposal by `heads` as the admitted ones before it would leave them; the first admitted one gets
/// the revision after `head`. With `puts` false, only proposals that merely delete are admitted.
pub fn decide(batch: &[Proposal], heads: &dyn Heads, head: Revision, puts: bool) -> Vec<Verdict> {
    let mut judge = Judge { heads, head, changed: BTreeMap::new() };
    batch.iter().map(|proposal| judge.verdict(proposal, puts)).collect()
}

struct Judge<'a> {
    heads: &'a dyn Heads,
    head: Revision,
    /// The heads that proposals of this batch have moved.
    changed: BTreeMap<&'a Key, Option<Revision>>,
}

impl<'a> Judge<'a> {
    fn verdict(&mut self, proposal: &'a Proposal, puts: bool) -> Verdict {
        proposal.check_form()?;
        for (key, expect) in &proposal.guards {
            self.check(key, *expect)?;
        }
        for change in &proposal.changes {
            if change.write.body.is_none() && change.expect == Expect::Absent {
                // What is absent cannot be deleted: such a commit would take a revision and do nothing.
                self.check(&change.write.key, Expect::Present)?;
            }
            self.check(&change.write.key, change.expect)?;
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
