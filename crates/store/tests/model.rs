//! Store against a naive model: both agree after every random sequence of steps.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use proptest::prelude::*;
use setpoint_api::Revision;
use setpoint_sim::model::{Change, state_of};
use setpoint_sim::store_world::{StoreWorld, key, resource};
use setpoint_store::{Precondition, WatchFilter};

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<Change>),
    Batch(Vec<Vec<Change>>),
    ReadAt(prop::sample::Index),
    Watch(usize, WatchFilter),
    ReadWatch(usize, usize),
    ResumeWatch(usize),
    Fork(prop::sample::Index, Vec<Change>),
    Restart,
    Maintain,
    Compact,
    AdvanceClock(u64),
}

#[derive(Clone, Copy, Debug)]
enum WatchFilter {
    None,
    Namespace,
    Name,
    Field,
}

impl WatchFilter {
    fn to_filter(self) -> WatchFilter {
        match self {
            WatchFilter::None => WatchFilter::default(),
            WatchFilter::Namespace => WatchFilter { namespace: Some("a".into()), ..WatchFilter::default() },
            WatchFilter::Name => WatchFilter { name: Some("x".into()), ..WatchFilter::default() },
            WatchFilter::Field => {
                WatchFilter { field: Some(("size".into(), "even".into())), ..WatchFilter::default() }
            }
        }
    }
}

/// Change of one key of resource `number`, with a precondition that often holds.
fn change(number: usize) -> impl Strategy<Value = Change> {
    let precondition = prop_oneof![
        4 => Just(Precondition::Any),
        2 => Just(Precondition::Absent),
        2 => Just(Precondition::Present),
        2 => (0u64..40).prop_map(|revision| Precondition::Revision(Revision(revision))),
    ];
    let value = proptest::option::weighted(0.8, proptest::collection::vec(1u8.., 0..400));
    (0usize..5, precondition, value)
        .prop_map(move |(object, precondition, value)| (key(number, object), precondition, value))
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    prop_oneof![
        4 => change(0).prop_map(|one| vec![one]),
        2 => change(2).prop_map(|one| vec![one]),
        2 => (change(0), change(1)).prop_map(|(one, other)| vec![one, other]),
        1 => (change(0), change(1), change(2)).prop_map(|(a, b, c)| vec![a, b, c]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let filter = prop_oneof![
        Just(WatchFilter::None),
        Just(WatchFilter::Namespace),
        Just(WatchFilter::Name),
        Just(WatchFilter::Field)
    ];
    prop_oneof![
        20 => changes().prop_map(Step::Commit),
        3 => proptest::collection::vec(changes(), 1..6).prop_map(Step::Batch),
        4 => any::<prop::sample::Index>().prop_map(Step::ReadAt),
        2 => (0usize..3, filter).prop_map(|(resource, filter)| Step::Watch(resource, filter)),
        6 => (any::<usize>(), 0usize..8).prop_map(|(which, max)| Step::ReadWatch(which, max)),
        2 => any::<usize>().prop_map(Step::ResumeWatch),
        1 => (any::<prop::sample::Index>(), changes()).prop_map(|(at, changes)| Step::Fork(at, changes)),
        1 => Just(Step::Restart),
        2 => Just(Step::Maintain),
        1 => Just(Step::Compact),
        1 => (0u64..100).prop_map(Step::AdvanceClock),
    ]
}

fn apply_step(world: &mut StoreWorld, step: Step) {
    let random_revision = |world: &StoreWorld, index: prop::sample::Index| {
        Revision(index.index(usize::try_from(world.model.revision().0).unwrap() + 1) as u64)
    };
    match step {
        Step::Commit(changes) => world.commit(&changes),
        Step::Batch(batch) => assert!(!world.commit_batch(&batch).1, "nothing failed"),
        Step::ReadAt(index) => world.check_at(random_revision(world, index)),
        Step::Watch(number, filter) => world.watch(resource(number), filter.to_filter()),
        Step::ReadWatch(which, max) => world.read_watch(which, max),
        Step::ResumeWatch(which) => world.resume_watch(which),
        Step::Fork(index, changes) => fork(world, random_revision(world, index), &changes),
        Step::Restart => world.restart(),
        Step::Maintain => assert!(world.run_maintenance()),
        Step::Compact => assert!(world.compact()),
        Step::AdvanceClock(seconds) => world.pass(Duration::from_secs(seconds)),
    }
}

/// Changes to a fork do not affect the store.
fn fork(world: &StoreWorld, revision: Revision, changes: &[Change]) {
    let Ok(fork) = world.store.fork_at(revision) else { return };
    let before = state_of(&world.store.snapshot());
    let mut model = world.model.clone();
    model.truncate(revision);
    for (key, _, _) in changes {
        let exists = model.newest().contains_key(key) && fork.snapshot().get(key).is_some();
        if exists {
            let proposal =
                setpoint_store::Proposal::new(setpoint_store::CommitCause::default(), setpoint_api::Time(1));
            let committed = fork.commit(proposal.delete(key.clone(), Precondition::Present)).unwrap();
            assert_eq!(Some(committed.revision), model.commit(&[(key.clone(), Precondition::Present, None)]));
            assert!(fork.snapshot().get(key).is_none());
        }
    }
    assert_eq!(state_of(&world.store.snapshot()), before);
    assert_eq!(fork.snapshot().revision(), model.revision());
}

fn cases() -> u32 {
    std::env::var("SETPOINT_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(128)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn store_and_model_agree(steps in proptest::collection::vec(step(), 1..120)) {
        let mut world = StoreWorld::new();
        for step in steps {
            apply_step(&mut world, step);
        }
        world.check_watches();
        for revision in 0..=world.model.revision().0 {
            world.check_at(Revision(revision));
        }
        world.restart();
    }
}
