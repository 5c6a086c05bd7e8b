//! Metrics of encryption at rest, under upstream's names.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_api::Time;
use setpoint_server::metrics::{MetricType, Text};

/// Upper bounds of the buckets of call latencies, in milliseconds.
const BUCKETS_MS: [u64; 15] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384];

/// Counters of plugin calls and of reloads.
#[derive(Default)]
pub struct EncryptionMetrics(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    calls: BTreeMap<CallSeries, Latencies>,
    key_ids: BTreeMap<(Box<str>, String), (u64, Time)>,
    invalid_key_ids: BTreeMap<Box<str>, u64>,
    /// Successful and failed reloads, with the time of the last.
    reloads: [(u64, Time); 2],
}

/// Provider, method, and outcome.
type CallSeries = (Box<str>, &'static str, &'static str);

#[derive(Default)]
struct Latencies {
    buckets: [u64; BUCKETS_MS.len()],
    count: u64,
    sum: Duration,
}

impl EncryptionMetrics {
    /// Counts a call of a plugin.
    pub fn record_call(&self, provider: &str, method: &'static str, succeeded: bool, duration: Duration) {
        let mut counts = self.0.lock();
        let code = if succeeded { "OK" } else { "Unknown" };
        let series = counts.calls.entry((provider.into(), method, code)).or_default();
        for (bucket, bound) in series.buckets.iter_mut().zip(BUCKETS_MS) {
            *bucket += u64::from(duration <= Duration::from_millis(bound));
        }
        series.count += 1;
        series.sum += duration;
    }

    /// Counts a status with a key id, given by its hash.
    pub fn record_key_id(&self, provider: &str, hash: String, now: Time) {
        let mut counts = self.0.lock();
        let entry = counts.key_ids.entry((provider.into(), hash)).or_insert((0, now));
        *entry = (entry.0 + 1, now);
    }

    /// Counts a status with an invalid key id.
    pub fn record_invalid_key_id(&self, provider: &str) {
        *self.0.lock().invalid_key_ids.entry(provider.into()).or_default() += 1;
    }

    /// Counts a reload of the configuration.
    pub fn record_reload(&self, succeeded: bool, now: Time) {
        let entry = &mut self.0.lock().reloads[usize::from(!succeeded)];
        *entry = (entry.0 + 1, now);
    }

    /// Writes all families.
    pub fn write(&self, text: &mut Text) {
        let counts = self.0.lock();
        write_calls(&counts, text);
        if !counts.key_ids.is_empty() {
            let name = "apiserver_envelope_encryption_key_id_hash_status_last_timestamp_seconds";
            text.family(
                name,
                MetricType::Gauge,
                "The last time in seconds when a keyID was returned by the Status RPC call.",
            );
            for ((provider, hash), (_, at)) in &counts.key_ids {
                let labels = [("key_id_hash", &**hash), ("provider_name", provider)];
                text.sample(name, &labels, seconds(*at));
            }
        }
        if !counts.invalid_key_ids.is_empty() {
            let name = "apiserver_envelope_encryption_invalid_key_id_from_status_total";
            text.family(
                name,
                MetricType::Counter,
                "Number of times an invalid keyID is returned by the Status RPC call split by error.",
            );
            for (provider, count) in &counts.invalid_key_ids {
                text.sample(name, &[("error", "invalid"), ("provider_name", provider)], count);
            }
        }
        let name = "apiserver_encryption_config_controller_automatic_reloads_total";
        text.family(name, MetricType::Counter, "Total number of reload successes and failures of encryption configuration split by apiserver identity.");
        let outcomes = ["success", "failure"];
        for (status, (count, _)) in outcomes.into_iter().zip(&counts.reloads) {
            text.sample(name, &[("status", status)], count);
        }
        let name = "apiserver_encryption_config_controller_automatic_reload_last_timestamp_seconds";
        text.family(name, MetricType::Gauge, "Timestamp of the last successful or failed automatic reload of encryption configuration split by apiserver identity.");
        for (status, (_, at)) in
            outcomes.into_iter().zip(&counts.reloads).filter(|(_, (count, _))| *count > 0)
        {
            text.sample(name, &[("status", status)], seconds(*at));
        }
    }
}

fn write_calls(counts: &Counts, text: &mut Text) {
    if counts.calls.is_empty() {
        return;
    }
    let name = "apiserver_envelope_encryption_kms_operations_latency_seconds";
    text.family(name, MetricType::Histogram, "KMS operation duration with gRPC error code status total.");
    for ((provider, method, code), latencies) in &counts.calls {
        let path = format!("/v2.KeyManagementService/{method}");
        let labels = [("grpc_status_code", *code), ("method_name", &*path), ("provider_name", provider)];
        let bucket = |text: &mut Text, bound: &str, count: u64| {
            let [code, method, provider] = labels;
            text.sample(&format!("{name}_bucket"), &[code, method, provider, ("le", bound)], count);
        };
        for (bound, count) in BUCKETS_MS.iter().zip(latencies.buckets) {
            bucket(text, &(*bound as f64 / 1000.0).to_string(), count);
        }
        bucket(text, "+Inf", latencies.count);
        text.sample(&format!("{name}_sum"), &labels, latencies.sum.as_secs_f64());
        text.sample(&format!("{name}_count"), &labels, latencies.count);
    }
}

fn seconds(time: Time) -> f64 {
    time.0 as f64 / 1e6
}
