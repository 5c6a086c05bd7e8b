//! Tests of the checker: it accepts linearizable histories and rejects others.

use fastrand::Rng;

use super::*;

fn op(invoked: u64, answered: u64, call: Call, answer: Answer) -> Operation {
    Operation { call, answer, invoked, answered }
}

fn swap(expected: RegisterState, new: u64) -> Call {
    Call::Swap { expected, new }
}

#[test]
fn history_of_one_client_is_linearizable() {
    let history = [
        op(0, 1, Call::Get, Answer::Found(None)),
        op(2, 3, Call::Put(1), Answer::Done),
        op(4, 5, swap(Some(1), 2), Answer::Done),
        op(6, 7, swap(Some(1), 3), Answer::Rejected(Some(2))),
        op(8, 9, Call::Delete, Answer::Done),
        op(10, 11, Call::DeleteIf(2), Answer::Rejected(None)),
        op(12, 13, Call::Get, Answer::Found(None)),
    ];
    assert_eq!(check(&history), Ok((0..7).collect()));
}

#[test]
fn overlapping_operations_may_be_reordered() {
    let history = [
        op(0, 10, Call::Put(1), Answer::Done),
        op(1, 9, Call::Put(2), Answer::Done),
        op(2, 3, Call::Get, Answer::Found(Some(2))),
        op(4, 5, Call::Get, Answer::Found(Some(1))),
    ];
    assert_eq!(check(&history), Ok(vec![1, 2, 0, 3]));
}

#[test]
fn stale_read_is_rejected() {
    let history = [
        op(0, 1, Call::Put(1), Answer::Done),
        op(2, 3, Call::Put(2), Answer::Done),
        op(4, 5, Call::Get, Answer::Found(Some(1))),
    ];
    let error = check(&history).unwrap_err();
    assert_eq!((error.placed, error.state, error.stuck.as_slice()), (2, Some(2), &history[2..]));
    assert!(error.to_string().contains("[4, 5] Get -> Found(Some(1))"), "{error}");
}

#[test]
fn reads_that_go_back_are_rejected() {
    let history = [
        op(0, 9, Call::Put(1), Answer::Done),
        op(1, 2, Call::Get, Answer::Found(Some(1))),
        op(3, 4, Call::Get, Answer::Found(None)),
    ];
    assert!(check(&history).is_err());
    assert!(check(&history[..2]).is_ok());
}

#[test]
fn lost_update_is_rejected() {
    let history = [
        op(0, 1, Call::Put(1), Answer::Done),
        op(2, 5, swap(Some(1), 2), Answer::Done),
        op(3, 6, Call::Put(3), Answer::Done),
        op(7, 8, Call::Get, Answer::Found(Some(1))),
    ];
    assert!(check(&history).is_err());
    let explained = [history[0], history[1], history[2], op(7, 8, Call::Get, Answer::Found(Some(3)))];
    assert!(check(&explained).is_ok());
}

#[test]
fn double_success_is_rejected() {
    let history = [op(0, 5, swap(None, 1), Answer::Done), op(1, 4, swap(None, 2), Answer::Done)];
    assert!(check(&history).is_err());
    let deletes = [
        op(0, 1, Call::Put(1), Answer::Done),
        op(2, 5, Call::DeleteIf(1), Answer::Done),
        op(3, 6, Call::Delete, Answer::Done),
    ];
    assert!(check(&deletes).is_err());
}

#[test]
fn unjustified_rejection_is_found() {
    let history =
        [op(0, 1, Call::Put(1), Answer::Done), op(2, 3, swap(Some(1), 2), Answer::Rejected(Some(1)))];
    assert!(check(&history).is_err());
    let wrong_reason = [history[0], op(2, 3, swap(Some(7), 2), Answer::Rejected(Some(8)))];
    assert!(check(&wrong_reason).is_err());
}

#[test]
fn operation_without_answer_may_or_may_not_have_taken_effect() {
    let unknown = op(0, 0, Call::Put(1), Answer::Unknown);
    for found in [None, Some(1)] {
        assert!(check(&[unknown, op(5, 6, Call::Get, Answer::Found(found))]).is_ok());
    }
    let once =
        [unknown, op(5, 6, Call::Get, Answer::Found(Some(1))), op(7, 8, Call::Get, Answer::Found(None))];
    assert!(check(&once).is_err(), "an effect is not undone");
}

/// Applies operations to a real register at random instants within their intervals, and then corrupts one answer.
#[test]
fn true_histories_pass_and_corrupted_ones_do_not() {
    let mut rng = Rng::with_seed(7);
    let (mut caught, rounds) = (0, 200);
    for _ in 0..rounds {
        let mut history = true_history(&mut rng, 60);
        assert_eq!(check(&history).map(|order| order.len()), Ok(history.len()));
        // No order explains a value that was never written.
        let at = rng.usize(..history.len());
        history[at].answer = match history[at].answer {
            Answer::Found(_) => Answer::Found(Some(u64::MAX)),
            Answer::Rejected(_) => Answer::Rejected(Some(u64::MAX)),
            _ => Answer::Rejected(None),
        };
        caught += usize::from(check(&history).is_err());
    }
    assert!(caught > rounds * 9 / 10, "only {caught} of {rounds} were caught");
}

fn true_history(rng: &mut Rng, length: usize) -> Vec<Operation> {
    let (mut state, mut history) = (None, Vec::new());
    for n in 0..length as u64 {
        let call = match rng.u8(..5) {
            0 => Call::Get,
            1 => Call::Put(n),
            2 => swap(state, n),
            3 => swap(Some(n / 2), n),
            _ => Call::Delete,
        };
        let done =
            |allowed, after| if allowed { (Answer::Done, after) } else { (Answer::Rejected(state), state) };
        let (answer, after) = match call {
            Call::Get => (Answer::Found(state), state),
            Call::Put(new) => (Answer::Done, Some(new)),
            Call::Swap { expected, new } => done(state == expected, Some(new)),
            Call::Delete | Call::DeleteIf(_) => done(state.is_some(), None),
        };
        state = after;
        // The operation takes effect at this instant, within an interval that overlaps a few others.
        let instant = 100 * n + 1000;
        history.push(op(instant - rng.u64(..300), instant + rng.u64(..300), call, answer));
    }
    history
}

#[test]
fn order_against_real_time_is_rejected() {
    let operation = |position, invoked, answered| OrderedOperation { position, invoked, answered };
    assert_eq!(check_order(&[operation(1, 0, 5), operation(2, 1, 2), operation(3, 6, 7)]), Ok(()));
    assert_eq!(check_order(&[operation(2, 0, 1), operation(2, 2, 3)]), Ok(()), "equal positions are allowed");
    let (early, late) = (operation(9, 0, 1), operation(4, 2, 3));
    assert_eq!(check_order(&[operation(1, 0, 9), late, early, operation(12, 8, 9)]), Err((early, late)));
}
