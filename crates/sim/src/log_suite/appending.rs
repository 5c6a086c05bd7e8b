//! Claims about admission: which proposals a log admits and which it rejects.

use setpoint_api::Revision;
use setpoint_store::commit::{CHAIN_BYTES_MAX, CHAIN_COMMITS_MAX, COMMIT_BYTES_MAX, COMMIT_CHANGES_MAX};
use setpoint_store::{Draft, FailedPrecondition, Precondition, RejectReason};

use super::{LogFactory, LogTest, delete, key, pod, proposal, put, resource};

/// A new log has neither objects nor commits, also after it is reopened.
pub fn empty_log_holds_nothing(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    test.check();
    assert_eq!(test.log().stat().floor, Revision::ZERO);
}

/// The first commit is 1, and each is one more than the last, over batches of any size.
pub fn revisions_count_from_one_without_gaps(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    let mut next = 1;
    for size in [1, 3, 1, 7, 2] {
        let batch: Vec<_> = (0..size).map(|n| put(&format!("a/{n}"), Precondition::Any, "v")).collect();
        let verdicts = test.append(&batch);
        let expected: Vec<_> = (next..next + size).map(|n| Ok(Revision(n))).collect();
        assert_eq!(verdicts, expected);
        next += size;
    }
    test.check();
    assert_eq!(test.commit(put("a/0", Precondition::Any, "v")), Revision(next), "also after reopening");
}

/// `Any`, `Absent`, `Present` and `Revision`: each holds exactly where it should.
pub fn every_kind_of_precondition_is_checked(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    test.commit(put("a/there", Precondition::Any, "1"));
    test.commit(put("a/there", Precondition::Any, "2"));
    test.commit(put("a/gone", Precondition::Any, "1"));
    test.commit(delete("a/gone", Precondition::Any));
    let cases = [
        (Precondition::Any, true, true),
        (Precondition::Absent, false, true),
        (Precondition::Present, true, false),
        (Precondition::Revision(Revision(2)), true, false),
        (Precondition::Revision(Revision(1)), false, false),
        (Precondition::Revision(Revision(3)), false, false),
        (Precondition::Revision(Revision(4)), false, false),
        (Precondition::Revision(Revision(99)), false, false),
        (Precondition::Revision(Revision::ZERO), false, false),
    ];
    // A guard writes nothing, so every case meets the same state.
    for (n, (expect, there, absent)) in cases.into_iter().enumerate() {
        for (path, holds) in [("a/there", there), ("a/gone", absent), ("a/never", absent)] {
            let probe = put(&format!("probe/{n}"), Precondition::Any, "p").guard(pod(path), expect);
            assert_eq!(test.append(&[probe])[0].is_ok(), holds, "guard {expect:?} on {path}");
        }
    }
    // The same as preconditions of writes.
    let cases = [
        (Precondition::Any, true, true),
        (Precondition::Absent, false, true),
        (Precondition::Present, true, false),
    ];
    for (n, (expect, there, absent)) in cases.into_iter().enumerate() {
        test.commit(put(&format!("there/{n}"), Precondition::Any, "v"));
        for (path, holds) in [("there", there), ("absent", absent)] {
            let verdict = &test.append(&[put(&format!("{path}/{n}"), expect, "w")])[0];
            assert_eq!(verdict.is_ok(), holds, "put {expect:?} on what is {path}");
        }
    }
    let head = test.commit(put("a/z", Precondition::Absent, "v"));
    assert!(test.append(&[put("a/z", Precondition::Revision(Revision(head.0 - 1)), "w")])[0].is_err());
    let head = test.commit(put("a/z", Precondition::Revision(head), "w"));
    assert!(test.append(&[delete("a/z", Precondition::Revision(Revision(head.0 - 1)))])[0].is_err());
    test.commit(delete("a/z", Precondition::Revision(head)));
    test.check();
}

/// Each proposal of a batch sees the commits before it.
pub fn preconditions_see_the_commits_before_them_in_the_batch(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    test.commit(put("a/other", Precondition::Absent, "0"));
    let admitted: Vec<bool> = test
        .append(&[
            put("a/x", Precondition::Absent, "1"),
            put("a/x", Precondition::Absent, "rejected"),
            put("a/x", Precondition::Revision(Revision(2)), "2"),
            put("a/x", Precondition::Revision(Revision(2)), "rejected"),
            delete("a/x", Precondition::Revision(Revision(3))),
            delete("a/x", Precondition::Any),
            put("a/x", Precondition::Present, "rejected"),
            put("a/x", Precondition::Absent, "3"),
            put("a/other", Precondition::Revision(Revision(1)), "4"),
        ])
        .iter()
        .map(Result::is_ok)
        .collect();
    assert_eq!(admitted, [true, false, true, false, true, false, false, true, true]);
    test.check();
}

/// A guard is checked like a precondition, by the state at its position in the batch, and writes nothing.
pub fn guards_are_checked_in_order_and_write_nothing(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    let namespace = || key("namespaces", "shop");
    let make = || proposal().put(namespace(), Precondition::Absent, Draft::new("ns"));
    let inside =
        |path: &str| put(path, Precondition::Absent, "pod").guard(namespace(), Precondition::Present);
    let verdicts = test.append(&[inside("shop/early"), make(), inside("shop/web")]);
    assert_eq!(verdicts.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, true]);
    let unmoved = Precondition::Revision(Revision(1));
    let verdicts = test.append(&[
        put("shop/db", Precondition::Absent, "pod").guard(namespace(), unmoved),
        proposal().put(namespace(), Precondition::Present, Draft::new("ns2")),
        put("shop/late", Precondition::Absent, "pod").guard(namespace(), unmoved),
        put("shop/two", Precondition::Absent, "pod")
            .guard(pod("shop/web"), Precondition::Present)
            .guard(pod("shop/none"), Precondition::Absent),
    ]);
    assert_eq!(verdicts.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false, true]);
    assert_eq!(test.naive.commits.last().map(|commit| commit.writes.len()), Some(1));
    test.check();
}

/// A conflict reports the key, the expectation and the actual revision, also for guards.
pub fn conflict_names_the_key_and_both_revisions(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    test.commit(put("a/x", Precondition::Absent, "1"));
    test.commit(put("a/x", Precondition::Present, "2"));
    let conflict = |path, expected, actual: Option<u64>| {
        RejectReason::Conflict(FailedPrecondition { key: pod(path), expected, actual: actual.map(Revision) })
    };
    let stale = Precondition::Revision(Revision(1));
    assert_eq!(test.rejected(put("a/x", stale, "3")), conflict("a/x", stale, Some(2)));
    assert_eq!(
        test.rejected(put("a/x", Precondition::Absent, "3")),
        conflict("a/x", Precondition::Absent, Some(2))
    );
    assert_eq!(
        test.rejected(put("a/y", Precondition::Present, "3")),
        conflict("a/y", Precondition::Present, None)
    );
    assert_eq!(test.rejected(put("a/y", stale, "3")), conflict("a/y", stale, None));
    let guarded = put("a/z", Precondition::Absent, "3").guard(pod("a/x"), stale);
    assert_eq!(test.rejected(guarded), conflict("a/x", stale, Some(2)));
    let verdicts = test.append(&[put("a/x", Precondition::Revision(Revision(2)), "3"), delete("a/x", stale)]);
    assert_eq!(verdicts[1], Err(conflict("a/x", stale, Some(3))), "by an earlier commit of the batch");
    test.check();
}

/// A rejected proposal gets no revision, is not read back, and is not seen by later proposals.
pub fn rejected_proposal_leaves_no_trace(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    test.commit(put("a/x", Precondition::Absent, "1"));
    let verdicts = test.append(&[
        put("a/ghost", Precondition::Present, "rejected"),
        put("a/ghost", Precondition::Present, "still not there"),
        put("a/y", Precondition::Absent, "2"),
        delete("a/x", Precondition::Revision(Revision(9))),
        put("a/x", Precondition::Revision(Revision(1)), "3"),
    ]);
    let revisions: Vec<_> = verdicts.iter().map(|verdict| verdict.clone().ok()).collect();
    assert_eq!(revisions, [None, None, Some(Revision(2)), None, Some(Revision(3))]);
    test.check();
}

/// All writes of a commit take effect under one revision, or none does.
pub fn commit_is_atomic(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    let both =
        |expect| put("a/x", Precondition::Absent, "pod").put(key("nodes", "n1"), expect, Draft::new("node"));
    test.rejected(both(Precondition::Present));
    assert_eq!(test.commit(both(Precondition::Absent)), Revision(1));
    let mixed =
        |expect| delete("a/x", Precondition::Present).put(key("nodes", "n1"), expect, Draft::new("again"));
    test.rejected(mixed(Precondition::Revision(Revision(5))));
    assert_eq!(test.commit(mixed(Precondition::Revision(Revision(1)))), Revision(2));
    assert_eq!(test.naive.commits.iter().map(|commit| commit.writes.len()).collect::<Vec<_>>(), [2, 2]);
    test.check();
}

/// A watch of a resource cannot resume within a commit, so a commit has at most one key per resource.
pub fn two_keys_of_one_resource_are_rejected(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    let twice = [
        put("a/x", Precondition::Any, "1").put(pod("a/y"), Precondition::Any, Draft::new("2")),
        put("a/x", Precondition::Any, "1").put(pod("a/x"), Precondition::Any, Draft::new("2")),
        put("a/x", Precondition::Any, "1")
            .put(key("nodes", "n"), Precondition::Any, Draft::new("2"))
            .delete(pod("a/y"), Precondition::Any),
    ];
    for proposal in twice {
        assert_eq!(test.rejected(proposal), RejectReason::TwoOfOneResource { resource: resource("pods") });
    }
    test.check();
}

/// Chained proposals get consecutive revisions, see the ones before them, and leave nothing behind if one is rejected.
pub fn chained_proposals_are_admitted_or_rejected_together(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    test.commit(put("a/quota", Precondition::Absent, "0"));
    let charge = |seen: u64, name: &str, expect: Precondition| {
        let first = put("a/quota", Precondition::Revision(Revision(seen)), "1");
        let second = put("b/quota", Precondition::Any, "1");
        put(name, expect, "v").after(first).after(second).in_order()
    };
    // Of two chains on the same state the second is rejected as a whole, and later proposals do not see it.
    let mut batch: Vec<_> =
        charge(1, "a/x", Precondition::Absent).chain(charge(1, "a/y", Precondition::Absent)).collect();
    batch.push(put("a/z", Precondition::Absent, "v"));
    batch.extend(charge(2, "a/z", Precondition::Absent));
    batch.push(put("a/quota", Precondition::Revision(Revision(2)), "2"));
    let verdicts = test.append(&batch);
    let revisions: Vec<_> = verdicts.iter().map(|verdict| verdict.as_ref().ok().map(|r| r.0)).collect();
    let (none, first) = (None, [2, 3, 4].map(Some));
    assert_eq!(revisions[..3], first);
    assert_eq!(revisions[3..], [none, none, none, Some(5), none, none, none, Some(6)]);
    assert!(verdicts[3..6].iter().all(|verdict| matches!(
        verdict,
        Err(RejectReason::Conflict(conflict)) if conflict.key == pod("a/quota") && conflict.actual == Some(Revision(2))
    )));
    assert!(matches!(&verdicts[9], Err(RejectReason::Conflict(conflict)) if conflict.key == pod("a/z")));
    // Chains are limited in commits and bytes.
    let mut many = put("a/last", Precondition::Any, "v");
    for n in 1..CHAIN_COMMITS_MAX {
        many = many.after(put(&format!("many/{n}"), Precondition::Any, "v"));
    }
    let most = many.clone().in_order().collect::<Vec<_>>();
    assert!(test.append(&most).iter().all(Result::is_ok));
    many = many.after(put("many/more", Precondition::Any, "v"));
    let verdicts = test.append(&many.in_order().collect::<Vec<_>>());
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Err(RejectReason::TooManyCommits { .. }))));
    let large = "v".repeat(COMMIT_BYTES_MAX - (64 << 10));
    let mut heavy = put("a/last", Precondition::Any, &large);
    for n in 0..CHAIN_BYTES_MAX / COMMIT_BYTES_MAX {
        heavy = heavy.after(put(&format!("heavy/{n}"), Precondition::Any, &large));
    }
    let verdicts = test.append(&heavy.in_order().collect::<Vec<_>>());
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Err(RejectReason::ChainTooLarge { .. }))));
    test.check();
}

/// Empty, too many changes, too large, or a hole outside of the value.
pub fn invalid_proposals_are_rejected(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    assert_eq!(test.rejected(proposal()), RejectReason::Empty);
    assert_eq!(test.rejected(proposal().guard(pod("a/x"), Precondition::Absent)), RejectReason::Empty);
    let many = |count: usize| {
        (0..count).fold(proposal(), |proposal, n| {
            proposal.put(key(&format!("kind{n}"), "x"), Precondition::Any, Draft::new("v"))
        })
    };
    let changes = COMMIT_CHANGES_MAX + 1;
    assert_eq!(test.rejected(many(changes)), RejectReason::TooManyChanges { changes });
    assert_eq!(test.commit(many(COMMIT_CHANGES_MAX)), Revision(1));
    let large = proposal().put(pod("a/x"), Precondition::Any, Draft::new(vec![7; COMMIT_BYTES_MAX]));
    let bytes = large.bytes();
    assert_eq!(test.rejected(large), RejectReason::TooLarge { bytes });
    let hole = |at| proposal().put(pod("a/x"), Precondition::Any, Draft::with_revision_at("{}", at));
    assert_eq!(test.rejected(hole(3)), RejectReason::InvalidRevisionOffset { key: pod("a/x") });
    assert_eq!(test.rejected(hole(u32::MAX)), RejectReason::InvalidRevisionOffset { key: pod("a/x") });
    assert_eq!(test.commit(hole(2)), Revision(2), "a hole at the end of the value is valid");
    test.check();
}

/// A commit of exactly the maximum size is admitted.
pub fn largest_commit_is_admitted(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    let sized = |bytes| proposal().put(pod("a/x"), Precondition::Any, Draft::new(vec![7; bytes]));
    let room = COMMIT_BYTES_MAX - sized(0).bytes();
    test.rejected(sized(room + 1));
    test.commit(sized(room));
    test.append(&[sized(room), put("a/y", Precondition::Any, "small"), sized(room)]);
    test.check();
}

/// A missing key cannot be deleted, whatever the expectation.
pub fn delete_of_a_missing_key_is_rejected(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    test.commit(put("a/x", Precondition::Absent, "1"));
    test.commit(delete("a/x", Precondition::Any));
    let expectations = [
        Precondition::Any,
        Precondition::Present,
        Precondition::Revision(Revision(1)),
        Precondition::Revision(Revision(2)),
        Precondition::Absent,
    ];
    for path in ["a/x", "a/never"] {
        for expect in expectations {
            assert!(matches!(test.rejected(delete(path, expect)), RejectReason::Conflict(_)), "{expect:?}");
        }
    }
    test.commit(put("a/x", Precondition::Absent, "2"));
    test.rejected(delete("a/x", Precondition::Absent));
    test.check();
}

/// A batch without commits changes nothing.
pub fn batch_may_be_empty_or_rejected_as_a_whole(factory: &mut dyn LogFactory) {
    let mut test = LogTest::new(factory);
    assert!(test.append(&[]).is_empty());
    test.append(&[put("a/x", Precondition::Present, "1"), proposal()]);
    test.check();
    assert_eq!(test.commit(put("a/x", Precondition::Absent, "1")), Revision(1));
    test.check();
}
