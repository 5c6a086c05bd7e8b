//! Claim about random batches: verdicts and commits equal those of the reference.

use fastrand::Rng;
use setpoint_api::{Key, Revision, Time};
use setpoint_store::commit::Proposal;
use setpoint_store::log::CurrentRevisions;
use setpoint_store::{CommitCause, Draft, Precondition};

use super::reading::read_state;
use super::{LogFactory, LogTest, key};
use crate::naive::{NaiveLog, objects_of};

const SEED: u64 = 0x5e7_901e;
const BATCHES: usize = 1000;
const KINDS: [&str; 4] = ["pods", "nodes", "leases", "deployments.apps"];

/// Compares verdicts and commits with those of the reference log, over random batches, compactions and restarts.
pub fn random_batches_match_the_reference_log(factory: &mut dyn LogFactory) {
    let mut rng = Rng::with_seed(SEED);
    let mut test = LogTest::new(factory);
    let mut admitted = 0;
    for batch in 0..BATCHES {
        let random: Vec<RandomProposal> =
            (0..rng.usize(1..6)).map(|_| RandomProposal::random(&mut rng, &test.naive)).collect();
        let expected = decide_all(&random, &test.naive);
        let proposals: Vec<Proposal> = random.iter().map(RandomProposal::proposal).collect();
        let verdicts: Vec<_> = test.append(&proposals).into_iter().map(Result::ok).collect();
        assert_eq!(verdicts, expected, "seed {SEED:#x}, batch {batch}: {random:?}");
        admitted += expected.iter().flatten().count();
        match rng.u32(..200) {
            0..4 => test.compact(),
            4..7 => test.check(),
            7 => check_past_state(&mut test, &mut rng),
            _ => {}
        }
    }
    assert!(admitted > BATCHES, "most proposals should be admitted, only {admitted} were");
    test.check();
}

fn check_past_state(test: &mut LogTest<'_>, rng: &mut Rng) {
    let (floor, head) = (test.log().stat().floor, test.naive.head());
    let at = Revision(rng.u64(floor.0..=head.0));
    let state = read_state(&mut *test.log().reader(), at);
    assert_eq!(objects_of(&state), test.naive.objects_at(at), "seed {SEED:#x}, the state at {at}");
}

/// Proposal in a form that can be decided without the store.
#[derive(Debug)]
struct RandomProposal {
    changes: Vec<(Key, Precondition, Option<Draft>)>,
    guards: Vec<(Key, Precondition)>,
    time: Time,
    user: String,
}

impl RandomProposal {
    fn random(rng: &mut Rng, naive: &NaiveLog) -> RandomProposal {
        let mut proposal = RandomProposal {
            changes: Vec::new(),
            guards: Vec::new(),
            time: Time(rng.i64(..)),
            user: format!("user{}", rng.u8(..)),
        };
        for _ in 0..rng.usize(1..4) {
            let key = random_key(rng);
            let draft =
                rng.bool().then(|| random_draft(rng)).or_else(|| rng.bool().then(|| random_draft(rng)));
            proposal.changes.push((key.clone(), random_expect(rng, naive, &key), draft));
        }
        if rng.u8(..4) == 0 {
            let key = random_key(rng);
            proposal.guards.push((key.clone(), random_expect(rng, naive, &key)));
        }
        proposal
    }

    fn proposal(&self) -> Proposal {
        let cause = CommitCause { user: self.user.clone(), ..CommitCause::default() };
        let mut proposal = Proposal::new(cause, self.time);
        for (key, expect, draft) in &self.changes {
            proposal = match draft {
                Some(draft) => proposal.put(key.clone(), *expect, draft.clone()),
                None => proposal.delete(key.clone(), *expect),
            };
        }
        self.guards.iter().fold(proposal, |proposal, (key, expect)| proposal.guard(key.clone(), *expect))
    }

    /// `true` if it is to be admitted, by the contract of a log alone.
    fn is_admitted(&self, head: impl Fn(&Key) -> Option<Revision>) -> bool {
        let resources: Vec<_> = self.changes.iter().map(|(key, ..)| key.resource()).collect();
        let twice = resources.iter().enumerate().any(|(i, resource)| resources[..i].contains(resource));
        let as_expected = |key: &Key, expect: Precondition| match (expect, head(key)) {
            (Precondition::Any, _) | (Precondition::Absent, None) | (Precondition::Present, Some(_)) => true,
            (Precondition::Revision(expected), Some(actual)) => expected == actual,
            _ => false,
        };
        let changes = self.changes.iter().all(|(key, expect, draft)| {
            as_expected(key, *expect) && (draft.is_some() || head(key).is_some())
        });
        !twice && changes && self.guards.iter().all(|(key, expect)| as_expected(key, *expect))
    }
}

/// Decides each proposal on the state that the ones before it left.
fn decide_all(proposals: &[RandomProposal], naive: &NaiveLog) -> Vec<Option<Revision>> {
    let mut future = naive.clone();
    let decide = |proposal: &RandomProposal| {
        proposal.is_admitted(|key| CurrentRevisions::current_revision(&future, key)).then(|| {
            future.admit(&proposal.proposal());
            future.head()
        })
    };
    proposals.iter().map(decide).collect()
}

fn random_key(rng: &mut Rng) -> Key {
    let kind = KINDS[rng.usize(..KINDS.len())];
    let path = format!("ns{}/{}", rng.u8(..2), ["a", "b", "c"][rng.usize(..3)]);
    key(kind, if kind == "nodes" { &path[4..] } else { &path })
}

fn random_expect(rng: &mut Rng, naive: &NaiveLog, key: &Key) -> Precondition {
    let known = CurrentRevisions::current_revision(naive, key);
    match (rng.u8(..8), known) {
        (0 | 1, _) => Precondition::Any,
        (2, _) => Precondition::Absent,
        (3, _) => Precondition::Present,
        (4, _) => Precondition::Revision(Revision(rng.u64(..=naive.head().0 + 2))),
        (_, Some(revision)) => Precondition::Revision(revision),
        (_, None) => Precondition::Absent,
    }
}

fn random_draft(rng: &mut Rng) -> Draft {
    let length = if rng.u8(..50) == 0 { rng.usize(..20_000) } else { rng.usize(..100) };
    let fill = rng.u8(..);
    let bytes: Vec<u8> = (0..length).map(|n| if n % 3 == 0 { fill } else { rng.u8(..) }).collect();
    let draft = if rng.bool() {
        let hole = rng.usize(..=length) as u32;
        Draft::with_revision_at(bytes, hole)
    } else {
        Draft::new(bytes)
    };
    let draft =
        draft.labels([("app", ["web", "db"][rng.usize(..2)])]).fields([("n", rng.u8(..).to_string())]);
    if rng.u8(..4) == 0 { draft.expires(Time(rng.i64(..))) } else { draft }
}
