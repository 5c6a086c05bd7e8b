//! Flags that limit the requests in flight, with upstream's names.

use anyhow::bail;
use setpoint_server::api::Api;
use setpoint_server::inflight::Inflight;

/// Flags of priority and fairness.
#[derive(Debug, clap::Args)]
pub struct RequestLimitArgs {
    /// Queue requests by priority and flow. If false, requests over the limits are rejected at once
    #[arg(
        long,
        value_name = "BOOL",
        default_value_t = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        action = clap::ArgAction::Set
    )]
    enable_priority_and_fairness: bool,
    /// Number of seats that priority levels share, together with --max-mutating-requests-inflight. Without priority and
    /// fairness: maximum number of reads in flight (0 is no limit)
    #[arg(long, value_name = "N", default_value_t = 400)]
    max_requests_inflight: u32,
    /// Number of seats that priority levels share, together with --max-requests-inflight. Without priority and fairness:
    /// maximum number of writes in flight (0 is no limit)
    #[arg(long, value_name = "N", default_value_t = 200)]
    max_mutating_requests_inflight: u32,
}

impl RequestLimitArgs {
    /// Rejects a server without seats.
    pub fn validate(&self) -> anyhow::Result<()> {
        let (reads, writes) = (self.max_requests_inflight, self.max_mutating_requests_inflight);
        if self.enable_priority_and_fairness && self.seats() == 0 {
            bail!(
                "invalid configuration: MaxRequestsInFlight={reads} and MaxMutatingRequestsInFlight={writes}; they must \
                 add up to something positive"
            );
        }
        Ok(())
    }

    fn seats(&self) -> u32 {
        self.max_requests_inflight.saturating_add(self.max_mutating_requests_inflight)
    }

    /// Returns the API with these limits.
    pub fn apply_to(&self, api: Api) -> Api {
        if self.enable_priority_and_fairness {
            return api.with_fairness(Some(self.seats()));
        }
        let limits = Inflight::of_requests(self.max_requests_inflight, self.max_mutating_requests_inflight);
        api.with_fairness(None).with_bounds(limits)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        limits: RequestLimitArgs,
    }

    fn parse(args: &[&str]) -> RequestLimitArgs {
        Command::parse_from(["up"].iter().chain(args)).limits
    }

    #[test]
    fn seats_are_the_sum_of_both_limits_and_positive() {
        assert_eq!(parse(&[]).seats(), 600);
        assert!(parse(&["--enable-priority-and-fairness"]).enable_priority_and_fairness);
        let none = ["--max-requests-inflight=0", "--max-mutating-requests-inflight=0"];
        let error = parse(&none).validate().unwrap_err().to_string();
        assert!(error.contains("must add up to something positive"), "{error}");
        let disabled = parse(&[none[0], none[1], "--enable-priority-and-fairness=false"]);
        assert!(disabled.validate().is_ok(), "without priority and fairness, 0 is no limit");
    }
}
