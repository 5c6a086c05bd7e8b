//! When a question of a key goes out: never twice at a time, and after a refusal only after a pause that grows.
//!
//! Planners ask for what they lack whenever they lack it; that this never becomes a storm is seen to here, once for
//! all of them.

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_api::Time;

/// The first pause after a question that could not be answered.
pub const ASK_PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest. It is shorter than the period in which any planner asks anew, so that none is held up for a period.
pub const ASK_PAUSE_MAX: Duration = Duration::from_secs(10);
/// How long an answer is waited for before it is taken for lost: longer than anybody takes who answers at all, and
/// shorter than that period too.
pub const ASK_PATIENCE: Duration = Duration::from_secs(12);
/// How many answers of a key are kept; the oldest go first.
pub const ANSWERS_MAX: usize = 1024;

/// The questions of a key, by their id. Losing them costs a question, never safety.
#[derive(Debug, Default)]
pub(crate) struct Asking(BTreeMap<String, Question>);

#[derive(Debug)]
struct Question {
    /// How often in a row it could not be answered.
    errors: u32,
    /// When it may go out, if it should.
    again: Time,
}

impl Asking {
    /// Lets a question go out.
    ///
    /// # Errors
    /// If it is under way, or was refused lately: then when to ask again.
    pub fn ask(&mut self, id: &str, now: Time) -> Result<(), Time> {
        let again = now.after(ASK_PATIENCE);
        match self.0.get_mut(id) {
            Some(question) if question.again > now => Err(question.again),
            Some(question) => {
                question.again = again;
                Ok(())
            }
            None => {
                self.0.insert(id.to_owned(), Question { errors: 0, again });
                Ok(())
            }
        }
    }

    /// Takes in that a question was answered, or could not be.
    pub fn answered(&mut self, id: &str, is_error: bool, now: Time) {
        if !is_error {
            self.0.remove(id);
            return;
        }
        let question = self.0.entry(id.to_owned()).or_insert(Question { errors: 0, again: now });
        question.errors = question.errors.saturating_add(1);
        question.again = now.after(pause(question.errors));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// How long to wait after so many refusals in a row.
fn pause(errors: u32) -> Duration {
    let doublings = errors.saturating_sub(1).min(20);
    (ASK_PAUSE_MIN * (1 << doublings)).min(ASK_PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Time {
        Time(millis * 1000)
    }

    #[test]
    fn a_question_is_under_way_once_until_its_answer_is_taken_for_lost() {
        let mut asking = Asking::default();
        assert_eq!(asking.ask("a", at(0)), Ok(()));
        assert_eq!(asking.ask("a", at(1)), Err(at(12_000)));
        assert_eq!(asking.ask("b", at(1)), Ok(()), "another question waits for nobody");
        assert_eq!(asking.ask("a", at(12_000)), Ok(()));
        asking.answered("a", false, at(12_001));
        assert_eq!(asking.ask("a", at(12_001)), Ok(()), "who has an answer may want a newer one");
    }

    #[test]
    fn what_cannot_be_answered_is_asked_after_pauses_that_grow() {
        let mut asking = Asking::default();
        let mut now = at(0);
        let mut pauses = Vec::new();
        for _ in 0..10 {
            assert_eq!(asking.ask("a", now), Ok(()));
            asking.answered("a", true, now);
            let again = asking.ask("a", now).unwrap_err();
            pauses.push(again.since(now).as_millis());
            now = again;
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000]);
        asking.ask("a", now).unwrap();
        asking.answered("a", false, now);
        assert!(asking.is_empty(), "an answer ends the series");
    }
}
