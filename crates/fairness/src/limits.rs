//! Concurrency limits of priority levels: from their shares, and adjusted by borrowing.

use crate::allocation::{AllocationItem, allocate};
use crate::demand::DemandStatistics;
use crate::objects::priority_level::{LevelSpec, LimitResponse};

/// Part of the nominal limit that one request may occupy.
const MAX_SEATS_SHARE: f64 = 0.15;

/// Concurrency limits of a priority level, in seats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelLimits {
    /// Limit by the level's share of the server's seats.
    pub nominal: u32,
    /// Nominal limit without the seats that others may borrow.
    pub lower: u32,
    /// Nominal limit with the seats that may be borrowed.
    pub upper: u32,
    /// Limit in force.
    pub current: u32,
}

impl LevelLimits {
    /// Returns the upper bound of the seats of one request; `None` for levels without queues.
    #[must_use]
    pub fn max_seats(&self, spec: &LevelSpec) -> Option<u32> {
        let LimitResponse::Queue(queues) = spec.response else { return None };
        let share = (f64::from(self.nominal) * MAX_SEATS_SHARE).ceil() as u32;
        Some(share.min(self.nominal / queues.hand_size.max(1)).max(1))
    }
}

/// Returns the limits of levels with these specs, in their order. A current limit of zero is to be set by [`adjust`].
///
/// Limits are rounded up, so their sum may exceed the server's limit a little, as upstream's does.
#[must_use]
pub fn nominal_limits(server_limit: u32, specs: &[&LevelSpec]) -> Vec<LevelLimits> {
    let shares: f64 = specs.iter().map(|spec| f64::from(spec.shares)).sum();
    let limits = specs.iter().map(|spec| {
        let share = if shares > 0.0 { f64::from(spec.shares) / shares } else { 0.0 };
        let nominal = (f64::from(server_limit) * share).ceil();
        let part = |percent: u32| (nominal * f64::from(percent) / 100.0).round();
        let borrowed = spec.borrowing_percent.map_or(f64::from(server_limit), part);
        LevelLimits {
            // A float beyond 32 bits saturates.
            nominal: nominal as u32,
            lower: (nominal - part(spec.lendable_percent)) as u32,
            upper: (nominal + borrowed) as u32,
            current: 0,
        }
    });
    limits.collect()
}

/// Demand and limits of a level, for [`adjust`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct BorrowingLevel {
    pub is_exempt: bool,
    pub limits: LevelLimits,
    pub demand: DemandStatistics,
}

/// Result of an adjustment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Adjustment {
    /// Current limit of each level.
    pub current: Vec<u32>,
    /// Target of each level; zero for exempt ones.
    pub targets: Vec<f64>,
    /// Proportion of its target that a level gets.
    pub fair_fraction: f64,
}

impl BorrowingLevel {
    /// Seats that the level keeps, whatever others need: those that it used, within its nominal limit.
    fn floor(&self) -> u32 {
        let used = self.demand.high_watermark;
        if self.is_exempt {
            self.limits.lower.max(used)
        } else {
            self.limits.lower.max(used.min(self.limits.nominal))
        }
    }
}

/// Adjusts the current limits to the demands.
///
/// Each level keeps what it used, up to its nominal limit. The rest is allocated in proportion to the smoothed demands.
/// If exempt requests leave less than that, the floors shrink towards the lower limits.
pub(crate) fn adjust(levels: &[BorrowingLevel]) -> Adjustment {
    let sum = |seats: &dyn Fn(&BorrowingLevel) -> u32, is_exempt: bool| -> i64 {
        let of_kind = levels.iter().filter(|level| level.is_exempt == is_exempt);
        of_kind.map(|level| i64::from(seats(level))).sum()
    };
    let nominal = sum(&|level| level.limits.nominal, false) + sum(&|level| level.limits.nominal, true);
    let remaining = nominal - sum(&BorrowingLevel::floor, true);
    let (lower, floors) = (sum(&|level| level.limits.lower, false), sum(&BorrowingLevel::floor, false));
    let items: Vec<AllocationItem> = levels
        .iter()
        .filter(|level| !level.is_exempt)
        .map(|level| {
            let floor = f64::from(level.floor());
            AllocationItem {
                target: level.demand.smoothed.max(floor),
                lower: floor,
                upper: f64::from(level.limits.upper).max(floor),
            }
        })
        .collect();
    let mut fair_fraction = 0.0;
    let limits: Vec<f64> = if remaining <= lower {
        limited(levels).map(|level| level.limits.lower.into()).collect()
    } else if remaining <= floors {
        let share = (remaining - lower) as f64 / (floors - lower).max(1) as f64;
        let shrunk = |level: &BorrowingLevel| {
            let lower = f64::from(level.limits.lower);
            lower + (f64::from(level.floor()) - lower) * share
        };
        limited(levels).map(shrunk).collect()
    } else if let Ok((seats, fraction)) = allocate(nominal as f64, &items) {
        fair_fraction = fraction;
        seats
    } else {
        // No allocation exists: the limits stay.
        limited(levels).map(|level| level.limits.current.into()).collect()
    };
    let mut limited = limits.into_iter().zip(&items);
    let mut adjustment = Adjustment { fair_fraction, ..Adjustment::default() };
    for level in levels {
        let (current, target) = if level.is_exempt {
            (level.floor(), 0.0)
        } else {
            limited.next().map_or((0, 0.0), |(seats, item)| (seats.round() as u32, item.target))
        };
        adjustment.current.push(current);
        adjustment.targets.push(target);
    }
    adjustment
}

fn limited(levels: &[BorrowingLevel]) -> impl Iterator<Item = &BorrowingLevel> {
    levels.iter().filter(|level| !level.is_exempt)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::objects::priority_level::PriorityLevel;

    fn built_in() -> (Vec<&'static str>, Vec<LevelSpec>) {
        let names: Vec<&str> = setpoint_api::kinds::flowcontrol::builtin::level_names().collect();
        let specs = names.iter().map(|name| PriorityLevel::built_in(name).unwrap().spec).collect();
        (names, specs)
    }

    fn demand(high_watermark: u32, smoothed: f64) -> DemandStatistics {
        DemandStatistics { high_watermark, smoothed, ..Default::default() }
    }

    #[test]
    fn limits_of_the_built_in_levels_equal_upstreams() {
        let (names, specs) = built_in();
        let limits = nominal_limits(600, &specs.iter().collect::<Vec<_>>());
        let of = |name: &str| limits[names.iter().position(|one| *one == name).unwrap()];
        let limit = |name| (of(name).nominal, of(name).lower, of(name).upper);
        // A kube-apiserver with 600 seats exposes these as nominal_limit_seats, lower_limit_seats, upper_limit_seats.
        assert_eq!(limit("exempt"), (0, 0, 600));
        assert_eq!(limit("catch-all"), (13, 13, 613));
        assert_eq!(limit("global-default"), (49, 24, 649));
        assert_eq!(limit("leader-election"), (25, 25, 625));
        assert_eq!(limit("node-high"), (98, 73, 698));
        assert_eq!(limit("system"), (74, 50, 674));
        assert_eq!(limit("workload-high"), (98, 49, 698));
        assert_eq!(limit("workload-low"), (245, 24, 845));
        let spec = |name: &str| &specs[names.iter().position(|one| *one == name).unwrap()];
        assert_eq!(of("workload-low").max_seats(spec("workload-low")), Some(37));
        assert_eq!(of("global-default").max_seats(spec("global-default")), Some(8));
        assert_eq!(of("catch-all").max_seats(spec("catch-all")), None);
    }

    #[test]
    fn idle_level_lends_to_a_busy_one_and_gets_its_seats_back() {
        let limits = LevelLimits { nominal: 100, lower: 20, upper: 200, current: 100 };
        let level =
            |high, smoothed| BorrowingLevel { is_exempt: false, limits, demand: demand(high, smoothed) };
        let adjusted = adjust(&[level(0, 0.0), level(400, 400.0)]);
        assert_eq!(adjusted.current, [20, 180]);
        let adjusted = adjust(&[level(400, 400.0), level(400, 400.0)]);
        assert_eq!(adjusted.current, [100, 100]);
        let adjusted = adjust(&[level(50, 30.0), level(400, 400.0)]);
        assert_eq!(adjusted.current, [50, 150], "used seats are not lent");
    }

    #[test]
    fn exempt_requests_displace_lendable_seats_only() {
        let limits = LevelLimits { nominal: 100, lower: 20, upper: 200, current: 100 };
        let exempt = |used| BorrowingLevel {
            is_exempt: true,
            limits: LevelLimits::default(),
            demand: demand(used, f64::from(used)),
        };
        let level = BorrowingLevel { is_exempt: false, limits, demand: demand(100, 100.0) };
        assert_eq!(adjust(&[exempt(500), level]).current, [500, 20]);
        assert_eq!(adjust(&[exempt(40), level]).current, [40, 60]);
        assert_eq!(adjust(&[]).current, [0; 0]);
    }

    proptest! {
        #[test]
        fn adjusted_limits_stay_within_their_bounds(
            levels in prop::collection::vec((0u32..200, 0u32..=100, 0u32..300, 0u32..2000, 0.0f64..2000.0), 1..10),
            exempt in prop::option::of(0u32..1000),
        ) {
            let mut all: Vec<BorrowingLevel> = levels
                .into_iter()
                .map(|(nominal, lendable, borrowing, high, smoothed)| BorrowingLevel {
                    is_exempt: false,
                    limits: LevelLimits {
                        nominal,
                        lower: nominal - nominal * lendable / 100,
                        upper: nominal + borrowing,
                        current: nominal,
                    },
                    demand: demand(high, smoothed),
                })
                .collect();
            all.extend(exempt.map(|used| BorrowingLevel {
                is_exempt: true,
                limits: LevelLimits::default(),
                demand: demand(used, f64::from(used)),
            }));
            let adjusted = adjust(&all);
            let mut sum = 0;
            for (level, current) in all.iter().zip(&adjusted.current).filter(|(level, _)| !level.is_exempt) {
                prop_assert!(level.limits.lower <= *current && *current <= level.limits.upper);
                sum += current;
            }
            let nominal: u32 = all.iter().map(|level| level.limits.nominal).sum();
            prop_assert!(sum <= nominal + all.len() as u32, "{sum} of {nominal}");
        }
    }
}
