//! Renewal of the certificates of a running server.

use std::future::Future;
use std::time::Duration;

use setpoint_api::Clock;
use setpoint_pki::certs::Pki;

/// Interval at which the wall clock is checked. Timers stop while the machine is suspended and do not follow
/// changes of the clock, so no sleep is longer than this.
const CHECK_EVERY: Duration = Duration::from_secs(60);
/// Number of checks between a failed renewal and the next attempt.
const CHECKS_BETWEEN_RETRIES: u32 = 5;

/// Calls `renew` whenever the certificates in use are due by the wall clock. Never returns.
pub async fn renew_when_due<S: Future<Output = ()>>(
    clock: &dyn Clock,
    mut in_use: Pki,
    mut sleep: impl FnMut(Duration) -> S,
    mut renew: impl FnMut() -> anyhow::Result<Pki>,
) {
    let mut checks_to_skip = 0;
    loop {
        sleep(CHECK_EVERY).await;
        if checks_to_skip > 0 {
            checks_to_skip -= 1;
        } else if in_use.is_renewal_due(clock.now()) {
            match renew() {
                Ok(pki) => {
                    tracing::info!("certificates renewed");
                    in_use = pki;
                }
                Err(error) => {
                    tracing::error!(error = %format!("{error:#}"), "certificate renewal failed");
                    checks_to_skip = CHECKS_BETWEEN_RETRIES - 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Context, Poll, Waker};

    use setpoint_api::{ManualClock, Time};

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    const START: Time = Time::from_seconds(1_790_000_000);

    /// Returns the checks, of `checks` many, at which certificates were renewed, with `wall` as the wall
    /// clock at each check.
    fn renewals(checks: u32, wall: impl Fn(u32) -> Time, fails: impl Fn(u32) -> bool) -> Vec<u32> {
        let names = ["localhost".to_owned()];
        let (clock, check) = (ManualClock::new(START), AtomicU32::new(0));
        let mut made = Vec::new();
        let first = Pki::ephemeral(&names, START, 1).unwrap();
        let sleep = |time: Duration| {
            assert!(time <= Duration::from_secs(120), "a suspended machine notices late: {time:?}");
            let number = check.fetch_add(1, Ordering::Relaxed) + 1;
            clock.set_wall(wall(number));
            async move {
                if number > checks {
                    std::future::pending::<()>().await;
                }
            }
        };
        let renew = || {
            let number = check.load(Ordering::Relaxed);
            made.push(number);
            anyhow::ensure!(!fails(number), "the disk is full");
            Ok(Pki::ephemeral(&names, clock.now(), u64::from(number))?)
        };
        {
            let mut running = pin!(renew_when_due(&clock, first, sleep, renew));
            assert_eq!(running.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending);
        }
        made
    }

    #[test]
    fn certificates_are_renewed_after_two_thirds_of_their_life() {
        let made = renewals(300, |check| START.after(DAY * check), |_| false);
        assert_eq!(made, [244], "of 365 days");
    }

    #[test]
    fn suspended_machine_renews_at_the_next_check() {
        let wall = |check| START.after(if check < 3 { Duration::ZERO } else { DAY * 300 });
        assert_eq!(renewals(10, wall, |_| false), [3]);
    }

    #[test]
    fn certificates_from_a_future_clock_are_renewed() {
        let wall = |check| START.after(if (3..6).contains(&check) { DAY * 300 } else { DAY });
        assert_eq!(renewals(10, wall, |_| false), [3, 6]);
    }

    #[test]
    fn failed_renewal_is_retried_with_pauses() {
        let made = renewals(20, |_| START.after(DAY * 300), |check| check < 10);
        assert_eq!(made, [1, 6, 11]);
    }
}
