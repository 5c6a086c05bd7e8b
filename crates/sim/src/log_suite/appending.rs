//! What a log admits and what it refuses.

use setpoint_api::Revision;
use setpoint_store::commit::{CHAIN_BYTES_MAX, CHAIN_COMMITS_MAX, COMMIT_BYTES_MAX, COMMIT_CHANGES_MAX};
use setpoint_store::{Conflict, Draft, Precondition, RejectReason};

use super::{Bench, Subject, delete, key, pod, proposal, put, resource};

/// A new log has neither objects nor commits, and goes on to have none when it is opened again.
pub fn an_empty_log_holds_nothing(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    bench.check();
    assert_eq!(bench.log().stat().floor, Revision::ZERO);
}

/// Over batches of any size the first commit is 1 and each is one more than the last.
pub fn revisions_count_from_one_without_gaps(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    let mut next = 1;
    for size in [1, 3, 1, 7, 2] {
        let batch: Vec<_> = (0..size).map(|n| put(&format!("a/{n}"), Precondition::Any, "v")).collect();
        let verdicts = bench.append(&batch);
        let expected: Vec<_> = (next..next + size).map(|n| Ok(Revision(n))).collect();
        assert_eq!(verdicts, expected);
        next += size;
    }
    bench.check();
    assert_eq!(
        bench.commit(put("a/0", Precondition::Any, "v")),
        Revision(next),
        "also after opening it again"
    );
}

/// Anything, nothing, something and this revision: each holds where it should and nowhere else.
pub fn every_kind_of_precondition_is_judged(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    bench.commit(put("a/there", Precondition::Any, "1"));
    bench.commit(put("a/there", Precondition::Any, "2"));
    bench.commit(put("a/gone", Precondition::Any, "1"));
    bench.commit(delete("a/gone", Precondition::Any));
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
    // A guard changes nothing, so that every case meets the same state.
    for (n, (expect, there, absent)) in cases.into_iter().enumerate() {
        for (path, holds) in [("a/there", there), ("a/gone", absent), ("a/never", absent)] {
            let probe = put(&format!("probe/{n}"), Precondition::Any, "p").guard(pod(path), expect);
            assert_eq!(bench.append(&[probe])[0].is_ok(), holds, "guard {expect:?} on {path}");
        }
    }
    // And as preconditions of the changes themselves.
    let cases = [
        (Precondition::Any, true, true),
        (Precondition::Absent, false, true),
        (Precondition::Present, true, false),
    ];
    for (n, (expect, there, absent)) in cases.into_iter().enumerate() {
        bench.commit(put(&format!("there/{n}"), Precondition::Any, "v"));
        for (path, holds) in [("there", there), ("absent", absent)] {
            let verdict = &bench.append(&[put(&format!("{path}/{n}"), expect, "w")])[0];
            assert_eq!(verdict.is_ok(), holds, "put {expect:?} on what is {path}");
        }
    }
    let head = bench.commit(put("a/z", Precondition::Absent, "v"));
    assert!(bench.append(&[put("a/z", Precondition::Revision(Revision(head.0 - 1)), "w")])[0].is_err());
    let head = bench.commit(put("a/z", Precondition::Revision(head), "w"));
    assert!(bench.append(&[delete("a/z", Precondition::Revision(Revision(head.0 - 1)))])[0].is_err());
    bench.commit(delete("a/z", Precondition::Revision(head)));
    bench.check();
}

/// One batch may hold a whole story; each proposal meets what the ones before it left.
pub fn preconditions_see_the_commits_before_them_in_the_batch(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    bench.commit(put("a/other", Precondition::Absent, "0"));
    let admitted: Vec<bool> = bench
        .append(&[
            put("a/x", Precondition::Absent, "1"),
            put("a/x", Precondition::Absent, "refused"),
            put("a/x", Precondition::Revision(Revision(2)), "2"),
            put("a/x", Precondition::Revision(Revision(2)), "refused"),
            delete("a/x", Precondition::Revision(Revision(3))),
            delete("a/x", Precondition::Any),
            put("a/x", Precondition::Present, "refused"),
            put("a/x", Precondition::Absent, "3"),
            put("a/other", Precondition::Revision(Revision(1)), "4"),
        ])
        .iter()
        .map(Result::is_ok)
        .collect();
    assert_eq!(admitted, [true, false, true, false, true, false, false, true, true]);
    bench.check();
}

/// A guard is judged like a precondition, by the state at its place in the batch, and writes nothing.
pub fn guards_are_judged_in_order_and_change_nothing(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    let namespace = || key("namespaces", "shop");
    let make = || proposal().put(namespace(), Precondition::Absent, Draft::new("ns"));
    let inside =
        |path: &str| put(path, Precondition::Absent, "pod").guard(namespace(), Precondition::Present);
    let verdicts = bench.append(&[inside("shop/early"), make(), inside("shop/web")]);
    assert_eq!(verdicts.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, true]);
    let unmoved = Precondition::Revision(Revision(1));
    let verdicts = bench.append(&[
        put("shop/db", Precondition::Absent, "pod").guard(namespace(), unmoved),
        proposal().put(namespace(), Precondition::Present, Draft::new("ns2")),
        put("shop/late", Precondition::Absent, "pod").guard(namespace(), unmoved),
        put("shop/two", Precondition::Absent, "pod")
            .guard(pod("shop/web"), Precondition::Present)
            .guard(pod("shop/none"), Precondition::Absent),
    ]);
    assert_eq!(verdicts.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false, true]);
    assert_eq!(bench.naive.commits.last().map(|commit| commit.writes.len()), Some(1));
    bench.check();
}

/// A writer that lost learns which key it was, what it had expected and what is there, guards included.
pub fn a_conflict_names_the_key_and_both_revisions(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    bench.commit(put("a/x", Precondition::Absent, "1"));
    bench.commit(put("a/x", Precondition::Present, "2"));
    let conflict = |path, expected, actual: Option<u64>| {
        RejectReason::Conflict(Conflict { key: pod(path), expected, actual: actual.map(Revision) })
    };
    let stale = Precondition::Revision(Revision(1));
    assert_eq!(bench.refused(put("a/x", stale, "3")), conflict("a/x", stale, Some(2)));
    assert_eq!(
        bench.refused(put("a/x", Precondition::Absent, "3")),
        conflict("a/x", Precondition::Absent, Some(2))
    );
    assert_eq!(
        bench.refused(put("a/y", Precondition::Present, "3")),
        conflict("a/y", Precondition::Present, None)
    );
    assert_eq!(bench.refused(put("a/y", stale, "3")), conflict("a/y", stale, None));
    let guarded = put("a/z", Precondition::Absent, "3").guard(pod("a/x"), stale);
    assert_eq!(bench.refused(guarded), conflict("a/x", stale, Some(2)));
    let verdicts =
        bench.append(&[put("a/x", Precondition::Revision(Revision(2)), "3"), delete("a/x", stale)]);
    assert_eq!(verdicts[1], Err(conflict("a/x", stale, Some(3))), "by what the batch itself put");
    bench.check();
}

/// What was refused takes no revision, is not read back, and is no state for those after it.
pub fn a_refused_proposal_leaves_no_trace(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    bench.commit(put("a/x", Precondition::Absent, "1"));
    let verdicts = bench.append(&[
        put("a/ghost", Precondition::Present, "refused"),
        put("a/ghost", Precondition::Present, "still not there"),
        put("a/y", Precondition::Absent, "2"),
        delete("a/x", Precondition::Revision(Revision(9))),
        put("a/x", Precondition::Revision(Revision(1)), "3"),
    ]);
    let revisions: Vec<_> = verdicts.iter().map(|verdict| verdict.clone().ok()).collect();
    assert_eq!(revisions, [None, None, Some(Revision(2)), None, Some(Revision(3))]);
    bench.check();
}

/// The writes of a commit happen together, under one revision, or not at all.
pub fn a_commit_is_all_or_nothing(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    let both =
        |expect| put("a/x", Precondition::Absent, "pod").put(key("nodes", "n1"), expect, Draft::new("node"));
    bench.refused(both(Precondition::Present));
    assert_eq!(bench.commit(both(Precondition::Absent)), Revision(1));
    let mixed =
        |expect| delete("a/x", Precondition::Present).put(key("nodes", "n1"), expect, Draft::new("again"));
    bench.refused(mixed(Precondition::Revision(Revision(5))));
    assert_eq!(bench.commit(mixed(Precondition::Revision(Revision(1)))), Revision(2));
    assert_eq!(bench.naive.commits.iter().map(|commit| commit.writes.len()).collect::<Vec<_>>(), [2, 2]);
    bench.check();
}

/// No watch of a resource could resume inside a commit, so there is no inside.
pub fn two_keys_of_one_resource_are_refused(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    let twice = [
        put("a/x", Precondition::Any, "1").put(pod("a/y"), Precondition::Any, Draft::new("2")),
        put("a/x", Precondition::Any, "1").put(pod("a/x"), Precondition::Any, Draft::new("2")),
        put("a/x", Precondition::Any, "1")
            .put(key("nodes", "n"), Precondition::Any, Draft::new("2"))
            .delete(pod("a/y"), Precondition::Any),
    ];
    for proposal in twice {
        assert_eq!(bench.refused(proposal), RejectReason::TwoOfOneResource { resource: resource("pods") });
    }
    bench.check();
}

/// Proposals that are made together get revisions side by side, see what the ones before them did, and leave nothing
/// behind if one of them is refused.
pub fn what_is_made_together_is_admitted_or_refused_together(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    bench.commit(put("a/quota", Precondition::Absent, "0"));
    let charge = |seen: u64, name: &str, expect: Precondition| {
        let first = put("a/quota", Precondition::Revision(Revision(seen)), "1");
        let second = put("b/quota", Precondition::Any, "1");
        put(name, expect, "v").after(first).after(second).in_order()
    };
    // Of two that saw the same, the second is refused as a whole; what comes after it is judged as if it had not been.
    let mut batch: Vec<_> =
        charge(1, "a/x", Precondition::Absent).chain(charge(1, "a/y", Precondition::Absent)).collect();
    batch.push(put("a/z", Precondition::Absent, "v"));
    batch.extend(charge(2, "a/z", Precondition::Absent));
    batch.push(put("a/quota", Precondition::Revision(Revision(2)), "2"));
    let verdicts = bench.append(&batch);
    let revisions: Vec<_> = verdicts.iter().map(|verdict| verdict.as_ref().ok().map(|r| r.0)).collect();
    let (none, first) = (None, [2, 3, 4].map(Some));
    assert_eq!(revisions[..3], first);
    assert_eq!(revisions[3..], [none, none, none, Some(5), none, none, none, Some(6)]);
    assert!(verdicts[3..6].iter().all(|verdict| matches!(
        verdict,
        Err(RejectReason::Conflict(conflict)) if conflict.key == pod("a/quota") && conflict.actual == Some(Revision(2))
    )));
    assert!(matches!(&verdicts[9], Err(RejectReason::Conflict(conflict)) if conflict.key == pod("a/z")));
    // There is a bound to it.
    let mut many = put("a/last", Precondition::Any, "v");
    for n in 1..CHAIN_COMMITS_MAX {
        many = many.after(put(&format!("many/{n}"), Precondition::Any, "v"));
    }
    let most = many.clone().in_order().collect::<Vec<_>>();
    assert!(bench.append(&most).iter().all(Result::is_ok));
    many = many.after(put("many/more", Precondition::Any, "v"));
    let verdicts = bench.append(&many.in_order().collect::<Vec<_>>());
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Err(RejectReason::TooManyCommits { .. }))));
    let large = "v".repeat(COMMIT_BYTES_MAX - (64 << 10));
    let mut heavy = put("a/last", Precondition::Any, &large);
    for n in 0..CHAIN_BYTES_MAX / COMMIT_BYTES_MAX {
        heavy = heavy.after(put(&format!("heavy/{n}"), Precondition::Any, &large));
    }
    let verdicts = bench.append(&heavy.in_order().collect::<Vec<_>>());
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Err(RejectReason::ChainTooLarge { .. }))));
    bench.check();
}

/// Empty, too many, too large, a hole outside of the value.
pub fn what_no_state_could_admit_is_refused(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    assert_eq!(bench.refused(proposal()), RejectReason::Empty);
    assert_eq!(bench.refused(proposal().guard(pod("a/x"), Precondition::Absent)), RejectReason::Empty);
    let many = |count: usize| {
        (0..count).fold(proposal(), |proposal, n| {
            proposal.put(key(&format!("kind{n}"), "x"), Precondition::Any, Draft::new("v"))
        })
    };
    let changes = COMMIT_CHANGES_MAX + 1;
    assert_eq!(bench.refused(many(changes)), RejectReason::TooManyChanges { changes });
    assert_eq!(bench.commit(many(COMMIT_CHANGES_MAX)), Revision(1));
    let large = proposal().put(pod("a/x"), Precondition::Any, Draft::new(vec![7; COMMIT_BYTES_MAX]));
    let bytes = large.bytes();
    assert_eq!(bench.refused(large), RejectReason::TooLarge { bytes });
    let hole = |at| proposal().put(pod("a/x"), Precondition::Any, Draft::with_revision_at("{}", at));
    assert_eq!(bench.refused(hole(3)), RejectReason::InvalidRevisionOffset { key: pod("a/x") });
    assert_eq!(bench.refused(hole(u32::MAX)), RejectReason::InvalidRevisionOffset { key: pod("a/x") });
    assert_eq!(bench.commit(hole(2)), Revision(2), "at the very end there is still a place");
    bench.check();
}

/// A bound is a size that works.
pub fn the_largest_commit_is_admitted(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    let sized = |bytes| proposal().put(pod("a/x"), Precondition::Any, Draft::new(vec![7; bytes]));
    let room = COMMIT_BYTES_MAX - sized(0).bytes();
    bench.refused(sized(room + 1));
    bench.commit(sized(room));
    bench.append(&[sized(room), put("a/y", Precondition::Any, "small"), sized(room)]);
    bench.check();
}

/// Whatever the writer expected: what is not there cannot be deleted.
pub fn a_delete_of_nothing_is_refused(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    bench.commit(put("a/x", Precondition::Absent, "1"));
    bench.commit(delete("a/x", Precondition::Any));
    let expectations = [
        Precondition::Any,
        Precondition::Present,
        Precondition::Revision(Revision(1)),
        Precondition::Revision(Revision(2)),
        Precondition::Absent,
    ];
    for path in ["a/x", "a/never"] {
        for expect in expectations {
            assert!(matches!(bench.refused(delete(path, expect)), RejectReason::Conflict(_)), "{expect:?}");
        }
    }
    bench.commit(put("a/x", Precondition::Absent, "2"));
    bench.refused(delete("a/x", Precondition::Absent));
    bench.check();
}

/// A batch without commits is no event.
pub fn a_batch_may_be_empty_or_refused_as_a_whole(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    assert!(bench.append(&[]).is_empty());
    bench.append(&[put("a/x", Precondition::Present, "1"), proposal()]);
    bench.check();
    assert_eq!(bench.commit(put("a/x", Precondition::Absent, "1")), Revision(1));
    bench.check();
}
