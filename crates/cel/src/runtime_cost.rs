//! Cost of an evaluation, with the constants of cel-go and Kubernetes.
//!
//! A [`Meter`] counts two quantities. The cost is that of upstream, and stops an evaluation at the limit that the
//! caller gives. The work counts steps and allocations that upstream's cost ignores, such as copies of lists that share
//! their elements; its bound follows from the limit, so that no expression runs or allocates without bound.

use crate::eval::EvalError;
use crate::value::{Opaque, Value};

/// Cost of a variable or selection.
pub(crate) const SELECT_COST: u64 = 1;
/// Cost of a list literal.
pub(crate) const LIST_COST: u64 = 10;
/// Cost of a map literal.
pub(crate) const MAP_COST: u64 = 30;
/// Cost of an object literal.
pub(crate) const OBJECT_COST: u64 = 40;
/// Cost of a call without a rule.
pub(crate) const CALL_COST: u64 = 1;
/// Cost of an authorization check, of which an expression can afford two.
const CHECK_COST: u64 = 350_000;

/// Work that every evaluation may do.
const WORK_BASE: u64 = 1_000_000;
/// Work per unit of the cost limit.
const WORK_PER_COST: u64 = 4;
/// Bytes of text that are scanned in one unit of work.
const SCANNED_BYTES_PER_WORK: usize = 256;
/// Bytes of text that are allocated in one unit of work.
const ALLOCATED_BYTES_PER_WORK: usize = 32;

/// Counter of the cost of an evaluation.
#[derive(Debug)]
pub(crate) struct Meter {
    cost: u64,
    limit: u64,
    work: u64,
    work_limit: u64,
}

impl Meter {
    pub(crate) fn new(limit: u64) -> Meter {
        let work_limit = limit.saturating_mul(WORK_PER_COST).saturating_add(WORK_BASE);
        Meter { cost: 0, limit, work: 0, work_limit }
    }

    /// Cost so far.
    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// Adds to the cost.
    pub(crate) fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(EvalError::CostLimit) } else { Ok(()) }
    }

    /// Adds steps, or elements that are allocated.
    pub(crate) fn work(&mut self, steps: usize) -> Result<(), EvalError> {
        self.work = self.work.saturating_add(u64::try_from(steps).unwrap_or(u64::MAX));
        if self.work > self.work_limit { Err(EvalError::CostLimit) } else { Ok(()) }
    }

    /// Adds a scan of a text.
    pub(crate) fn scan(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.work(bytes / SCANNED_BYTES_PER_WORK)
    }

    /// Adds the allocation of a text.
    pub(crate) fn allocate(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.work(bytes / ALLOCATED_BYTES_PER_WORK)
    }

    /// Size of a value in costs: elements, code points or bytes; 1 for scalars.
    pub(crate) fn size(&mut self, value: &Value<'_>) -> Result<u64, EvalError> {
        match value {
            Value::String(text) => self.scan(text.len())?,
            Value::Optional(Some(value)) => return self.size(value),
            _ => {}
        }
        Ok(value.size().unwrap_or(1))
    }

    /// Cost of a traversal of a value with all its elements.
    fn traversal(&mut self, value: &Value<'_>) -> Result<u64, EvalError> {
        self.work(1)?;
        let mut cost: u64 = 0;
        match value {
            Value::String(text) => return Ok(text.len() as u64 / 10),
            Value::Bytes(bytes) => return Ok(bytes.len() as u64 / 10),
            Value::List(list) => {
                for element in list.iter() {
                    cost = cost.saturating_add(self.traversal(&element?)?);
                }
            }
            Value::Map(map) => {
                for key in map.keys() {
                    cost = cost.saturating_add(self.traversal(&key)?);
                    if let Some(value) = map.find(&key) {
                        cost = cost.saturating_add(self.traversal(&value?)?);
                    }
                }
            }
            _ => return Ok(1),
        }
        Ok(cost)
    }
}

/// Rule by which a call costs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CostRule {
    /// [`CALL_COST`].
    Call,
    /// [`CHECK_COST`].
    Check,
    /// Parse of a selector, the second argument.
    Selector,
    /// Traversal of the first argument with all its elements.
    Traversal,
    /// Scans of the first argument, a string.
    Scan {
        /// Number of scans.
        times: u64,
    },
    /// Scan of the first argument if it is a string; otherwise [`CALL_COST`].
    Conversion,
    /// Scan of the first argument if it is a string; reading the address of a network costs [`CALL_COST`].
    ParseIp,
    /// Scan of the second argument.
    Affix,
    /// Product of the scans of both arguments.
    Contains,
    /// Match of the first argument with a pattern, the second.
    Match,
    /// Two scans of the result.
    Joined,
    /// `containsIP`.
    ContainsIp,
    /// `containsCIDR`.
    ContainsCidr,
    /// `validate` of a named format.
    Validate,
    /// List as long as the result.
    ListOutput,
    /// List of the first argument, for each level.
    Flatten,
    /// Comparison of the elements of an argument with one another.
    SelfCompare {
        /// Index of the argument.
        argument: usize,
    },
    /// Product of the sizes of both arguments.
    Sets {
        /// Number of comparisons.
        times: u64,
    },
}

impl CostRule {
    /// `true` if the cost depends on the result.
    pub(crate) fn needs_result(self) -> bool {
        matches!(self, CostRule::Joined | CostRule::ListOutput)
    }

    /// Adds the cost of a call; `result` is absent before the call, and for an error.
    pub(crate) fn charge(
        self,
        meter: &mut Meter,
        args: &[Value<'_>],
        result: Option<&Value<'_>>,
    ) -> Result<(), EvalError> {
        let cost = self.cost(meter, args, result)?;
        meter.charge(cost)
    }

    fn cost(
        self,
        meter: &mut Meter,
        args: &[Value<'_>],
        result: Option<&Value<'_>>,
    ) -> Result<u64, EvalError> {
        let mut size = |index: usize| args.get(index).map_or(Ok(1), |argument| meter.size(argument));
        Ok(match self {
            CostRule::Call => CALL_COST,
            CostRule::Check => CHECK_COST,
            CostRule::Selector => {
                let length = size(1)?;
                let requirements = length.div_ceil(2);
                tenths(length).saturating_add(requirements.saturating_mul(LIST_COST + OBJECT_COST))
                    + LIST_COST
            }
            CostRule::Traversal => match args.first() {
                Some(argument) => meter.traversal(argument)?,
                None => 0,
            },
            CostRule::Scan { times } => tenths(size(0)?.saturating_mul(times)),
            CostRule::Conversion | CostRule::ParseIp => match args.first() {
                Some(Value::String(_)) => tenths(size(0)?),
                _ => CALL_COST,
            },
            CostRule::Affix => tenths(size(1)?),
            CostRule::Contains => tenths(size(0)?).saturating_mul(tenths(size(1)?)),
            CostRule::Match => match_cost(size(0)?, size(1)?),
            CostRule::Joined => match result {
                Some(result) => tenths(meter.size(result)?.saturating_mul(2)),
                None => tenths(2),
            },
            CostRule::ContainsIp => tenths(size(0)?.saturating_mul(2)) + parsed_text(args, size(1)?),
            CostRule::ContainsCidr => {
                let prefix = size(0)?;
                tenths(prefix.saturating_mul(2)) + tenths(prefix) + 1 + parsed_text(args, size(1)?)
            }
            CostRule::Validate => match args.first() {
                Some(Value::Opaque(opaque)) if let Opaque::Format(format) = &**opaque => {
                    match_cost(size(1)?, format.pattern_length)
                }
                _ => CALL_COST,
            },
            CostRule::ListOutput => match result {
                Some(result) => list_cost(meter.size(result)?),
                None => list_cost(1),
            },
            CostRule::Flatten => {
                let depth = match args.get(1) {
                    Some(Value::Int(depth)) => u64::try_from(*depth).unwrap_or(1),
                    _ => 1,
                };
                list_cost(size(0)?.saturating_mul(depth))
            }
            CostRule::SelfCompare { argument } => {
                let length = size(argument)?;
                let element = args.get(argument).and_then(Value::as_list).and_then(|list| list.get(0));
                let square = length.saturating_mul(length);
                let is_text = matches!(element, Some(Ok(Value::String(_) | Value::Bytes(_))));
                list_cost(square.saturating_mul(2).saturating_add(if is_text { square / 10 } else { 0 }))
            }
            CostRule::Sets { times } => {
                size(0)?.saturating_mul(size(1)?).saturating_mul(times).saturating_add(CALL_COST)
            }
        })
    }
}

/// Cost of a scan: a tenth of the size, rounded up.
pub(crate) fn tenths(size: u64) -> u64 {
    size.div_ceil(10)
}

fn list_cost(size: u64) -> u64 {
    size.saturating_add(CALL_COST + LIST_COST)
}

/// Cost of a match: an expression of a pattern is taken to have four characters.
fn match_cost(text: u64, pattern: u64) -> u64 {
    tenths(text.saturating_add(1)).saturating_mul(pattern.div_ceil(4))
}

/// Cost of parsing the second argument, if it is a string.
fn parsed_text(args: &[Value<'_>], size: u64) -> u64 {
    if matches!(args.get(1), Some(Value::String(_))) { tenths(size) } else { 0 }
}
