//! PriorityLevelConfigurations.

use setpoint_api::Value;
use setpoint_api::kinds::flowcontrol::builtin;

use super::{number, percent, text};
use crate::dealer::{Dealer, DealerError};

/// Name of the exempt level.
pub(crate) const EXEMPT: &str = "exempt";
/// Name of the level for requests of no other.
pub(crate) const CATCH_ALL: &str = "catch-all";
/// Shares of a limited level that specifies none.
const DEFAULT_SHARES: u32 = 30;
/// Largest percentage that can be lent.
const LENDABLE_MAX: u32 = 100;

/// A PriorityLevelConfiguration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriorityLevel {
    /// Name of the object.
    pub name: Box<str>,
    /// UID of the object; empty while a mandatory object is missing.
    pub uid: Box<str>,
    /// Compiled spec.
    pub spec: LevelSpec,
}

/// Compiled spec of a priority level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelSpec {
    /// Shares of the server's seats.
    pub shares: u32,
    /// Percentage of the nominal limit that other levels may borrow.
    pub lendable_percent: u32,
    /// Percentage of the nominal limit that the level may borrow; `None` without a limit.
    pub borrowing_percent: Option<u32>,
    /// Handling of requests that cannot run at once.
    pub response: LimitResponse,
}

/// Handling of requests that cannot run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitResponse {
    /// The level has no limit.
    Exempt,
    /// They are rejected.
    Reject,
    /// They wait in queues.
    Queue(QueuingSpec),
}

/// Queues of a priority level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuingSpec {
    /// Number of queues.
    pub queues: u32,
    /// Queues that one flow may use.
    pub hand_size: u32,
    /// Requests that may wait in one queue.
    pub length_limit: u32,
    /// Dealer for these numbers.
    pub dealer: Dealer,
}

/// Reason why an object is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LevelError {
    /// The union of limited and exempt is broken.
    #[error("broken union structure at the top")]
    Union,
    /// Only the level `exempt` is exempt.
    #[error("non-alignment between name and type")]
    Name,
    /// The union of the limit response is broken.
    #[error("broken union structure for limit response")]
    Response,
    /// The queues cannot be dealt.
    #[error("invalid queuing configuration")]
    Queues(#[from] DealerError),
}

impl PriorityLevel {
    /// Compiles an object.
    ///
    /// # Errors
    /// If its spec contradicts itself.
    pub fn read(object: &Value) -> Result<PriorityLevel, LevelError> {
        let name = text(object, &["metadata", "name"]);
        let spec = object.get("spec").map(|spec| LevelSpec::read(&name, spec));
        let spec = spec.unwrap_or(Err(LevelError::Union))?;
        Ok(PriorityLevel { uid: text(object, &["metadata", "uid"]), name, spec })
    }

    /// Compiles the built-in object of this name.
    pub(crate) fn built_in(name: &str) -> Option<PriorityLevel> {
        let spec = LevelSpec::read(name, &builtin::level_spec(name)?).ok()?;
        Some(PriorityLevel { name: name.into(), uid: Box::default(), spec })
    }
}

impl LevelSpec {
    fn read(name: &str, spec: &Value) -> Result<LevelSpec, LevelError> {
        let part = |field: &str| spec.get(field).filter(|part| !part.is_null());
        let (is_limited, is_exempt) =
            (spec.str_at(&["type"]) == "Limited", spec.str_at(&["type"]) == "Exempt");
        let (limited, exempt) = (part("limited"), part("exempt"));
        if is_limited != limited.is_some() || is_exempt != exempt.is_some() {
            return Err(LevelError::Union);
        }
        if is_exempt != (name == EXEMPT) {
            return Err(LevelError::Name);
        }
        let lendable = |part: &Value| percent(part, "lendablePercent", LENDABLE_MAX).unwrap_or(0);
        match (limited, exempt) {
            (Some(limited), _) => Ok(LevelSpec {
                shares: number(limited, "nominalConcurrencyShares").unwrap_or(DEFAULT_SHARES),
                lendable_percent: lendable(limited),
                borrowing_percent: number(limited, "borrowingLimitPercent"),
                response: response(limited.get("limitResponse").unwrap_or(&Value::Null))?,
            }),
            (_, Some(exempt)) => Ok(LevelSpec {
                shares: number(exempt, "nominalConcurrencyShares").unwrap_or(0),
                lendable_percent: lendable(exempt),
                borrowing_percent: None,
                response: LimitResponse::Exempt,
            }),
            (None, None) => Err(LevelError::Union),
        }
    }
}

fn response(response: &Value) -> Result<LimitResponse, LevelError> {
    let queuing = response.get("queuing").filter(|queuing| !queuing.is_null());
    match (response.str_at(&["type"]), queuing) {
        ("Reject", None) => Ok(LimitResponse::Reject),
        ("Queue", Some(queuing)) => {
            let queues = number(queuing, "queues").unwrap_or(0);
            let hand_size = number(queuing, "handSize").unwrap_or(0);
            let length_limit = number(queuing, "queueLengthLimit").unwrap_or(0);
            let dealer = Dealer::new(queues, hand_size)?;
            Ok(LimitResponse::Queue(QueuingSpec { queues, hand_size, length_limit, dealer }))
        }
        _ => Err(LevelError::Response),
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::value;

    use super::*;

    fn read(name: &str, spec: Value) -> Result<LevelSpec, LevelError> {
        PriorityLevel::read(&value!({"metadata": {"name": (name), "uid": "u"}, "spec": (spec)}))
            .map(|level| level.spec)
    }

    #[test]
    fn built_in_levels_are_compiled() {
        for name in builtin::level_names() {
            let level = PriorityLevel::built_in(name).unwrap();
            assert_eq!(level.spec.response == LimitResponse::Exempt, name == EXEMPT, "{name}");
        }
        let LimitResponse::Queue(queues) = PriorityLevel::built_in("workload-low").unwrap().spec.response
        else {
            panic!("workload-low has queues");
        };
        assert_eq!((queues.queues, queues.hand_size, queues.length_limit), (128, 6, 50));
    }

    #[test]
    fn contradicting_specs_are_errors() {
        let limited = |response: Value| value!({"type": "Limited", "limited": {"limitResponse": (response)}});
        let reject = || value!({"type": "Reject"});
        assert_eq!(read("a", limited(reject())).map(|spec| spec.shares), Ok(30));
        assert_eq!(read("exempt", limited(reject())), Err(LevelError::Name));
        assert_eq!(read("a", value!({"type": "Exempt", "exempt": {}})), Err(LevelError::Name));
        assert_eq!(read("a", value!({"type": "Limited"})), Err(LevelError::Union));
        assert_eq!(read("a", value!({"type": "Other"})), Err(LevelError::Union));
        assert_eq!(read("a", value!([])), Err(LevelError::Union));
        assert_eq!(read("a", limited(value!({"type": "Queue"}))), Err(LevelError::Response));
        let queues = |queues: i64, hand: i64| value!({"type": "Queue", "queuing": {"queues": (queues), "handSize": (hand), "queueLengthLimit": 5}});
        assert!(matches!(read("a", limited(queues(0, 1))), Err(LevelError::Queues(_))));
        assert!(matches!(read("a", limited(queues(4, 5))), Err(LevelError::Queues(_))));
        assert!(read("a", limited(queues(4, 3))).is_ok());
    }
}
