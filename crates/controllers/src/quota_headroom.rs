//! Quota headroom: a quota that admits more wakes the sets whose pods it rejected.
//!
//! Without it such a set would wait for its backoff, up to five minutes.

use setpoint_reconcile::Object;
use setpoint_views::quota::{Usage, amounts};
use setpoint_views::resource_quota::ResourceQuota;

/// `true` if a quota admits more than before: an enforced limit was raised or removed, or usage was released.
pub(crate) fn admits_more(before: &Object, after: &Object) -> bool {
    let status = |quota: &Object| {
        let status = &quota.view::<ResourceQuota>()?.status;
        Some((amounts(&status.hard), amounts(&status.used)))
    };
    let Some(((hard_before, used_before), (hard, used))) = status(before).zip(status(after)) else {
        return false;
    };
    has_less(&hard_before, &hard)
        || hard_before.keys().any(|name| !hard.contains_key(name))
        || has_less(&used, &used_before)
}

/// `true` if an amount is less than the other one of its name.
fn has_less(amounts: &Usage, others: &Usage) -> bool {
    amounts.iter().any(|(name, amount)| others.get(name).is_some_and(|other| amount < other))
}
