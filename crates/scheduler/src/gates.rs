//! Which domains of nodes will do: what rules about other pods come to.

use std::borrow::Cow;

use crate::cache::counters::{Counters, NOWHERE};
use crate::rules::{Rejection, pod_affinity, spread};

/// A bound on the count of a domain.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The counts.
    pub tally: (usize, usize),
    /// What the bound is.
    pub sort: Sort,
}

/// What the bound is.
#[derive(Clone, Debug)]
pub enum Sort {
    /// Not more than the least by some.
    Spread {
        /// By how much.
        skew: i64,
        /// With fewer domains the least is none.
        min_domains: i64,
        /// What the pod itself adds.
        own: i64,
    },
    /// At least one; or none in any domain that anything is said of, if the pod itself would be one.
    Near {
        /// Whether it would.
        own: bool,
        /// The counts of all that the pod must be near to.
        all: Vec<(usize, usize)>,
    },
    /// None.
    Far,
    /// None that shuns it.
    Shunned,
}

/// A gate at one moment.
pub struct Open<'a> {
    domains: &'a [u32],
    sums: Cow<'a, [i64]>,
    least: i64,
    most: i64,
    missing_will_do: bool,
    /// The same gate as if nobody came who is only promised a node.
    firm: Option<Box<Open<'a>>>,
}

impl Open<'_> {
    /// Whether a node will do.
    #[inline]
    #[must_use]
    pub fn takes(&self, node: usize) -> bool {
        match self.domains[node] {
            NOWHERE => self.missing_will_do,
            domain => {
                let sum = self.sums[domain as usize];
                self.least <= sum
                    && sum <= self.most
                    && self.firm.as_ref().is_none_or(|firm| firm.takes(node))
            }
        }
    }
}

impl Gate {
    /// The gate as it stands. Nobody may rely on pods that are only promised a node, nor be in their way: where more
    /// pods may open a gate, it must be open with them and without them.
    #[must_use]
    pub fn open<'a>(&self, counters: &'a Counters) -> Open<'a> {
        let open = self.with(counters, Cow::Borrowed(&counters.sums(self.tally).sums), false);
        let opens = matches!(self.sort, Sort::Spread { .. } | Sort::Near { .. });
        let firm = if opens { counters.firm_sums(self.tally) } else { None };
        let firm = firm.map(|sums| Box::new(self.with(counters, Cow::Owned(sums), true)));
        Open { firm, ..open }
    }

    /// The gate at some counts, with or without what is only promised.
    fn with<'a>(&self, counters: &'a Counters, sums: Cow<'a, [i64]>, is_firm: bool) -> Open<'a> {
        let tally = counters.sums(self.tally);
        let is_none = |tally: &(usize, usize)| counters.total(*tally, is_firm) == 0;
        let (least, most) = match &self.sort {
            Sort::Spread { skew, min_domains, own } => {
                let counted = || sums.iter().zip(&tally.nodes).filter(|(_, nodes)| **nodes > 0);
                let few = i64::try_from(counted().count()).unwrap_or(i64::MAX) < *min_domains;
                let least = if few { 0 } else { counted().map(|(sum, _)| *sum).min().unwrap_or(0) };
                (i64::MIN, skew.saturating_add(least) - own)
            }
            Sort::Near { own, all } if *own && all.iter().all(is_none) => (i64::MIN, i64::MAX),
            Sort::Near { .. } => (1, i64::MAX),
            Sort::Far | Sort::Shunned => (i64::MIN, 0),
        };
        let missing_will_do = matches!(self.sort, Sort::Far | Sort::Shunned);
        Open { domains: &counters.keys[tally.key].domains, sums, least, most, missing_will_do, firm: None }
    }

    /// Why a node will not do that it does not take.
    #[must_use]
    pub fn rejection(&self, counters: &Counters, node: usize) -> Rejection {
        let tally = counters.sums(self.tally);
        match &self.sort {
            Sort::Spread { .. } => spread::rejection(counters.keys[tally.key].domains[node] == NOWHERE),
            sort => pod_affinity::rejection(sort),
        }
    }
}
