//! CronJob: creates Jobs on a schedule.

use super::{job_spec, schedule, time_zone};
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::Rules;
use crate::kinds::read::{set_default, set_default_if_empty, shown, text};
use crate::kinds::workload::{check_nonnegative, warn_about_name};
use crate::value::Value;

/// Maximum bytes of a name: the names of Jobs have eleven more characters, and at most 63.
const NAME_BYTES_MAX: usize = 52;

const POLICIES: [&str; 3] = ["Allow", "Forbid", "Replace"];

/// Rules of CronJob.
pub struct CronJob;

impl Rules for CronJob {
    fn has_status(&self) -> bool {
        true
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn default(&self, object: &mut Value) {
        let spec = object.ensure_map("spec");
        set_default_if_empty(spec, "concurrencyPolicy", "Allow");
        set_default(spec, "suspend", false);
        set_default(spec, "successfulJobsHistoryLimit", 3);
        set_default(spec, "failedJobsHistoryLimit", 1);
        job_spec::default_nested(spec.ensure_map("jobTemplate").ensure("spec", Value::map));
    }

    fn prepare_create(&self, object: &mut Value) {
        if let Some(map) = object.as_map_mut() {
            map.remove("status");
        }
        job_spec::drop_disabled(object.at_mut(&["spec", "jobTemplate", "spec"]));
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        crate::kinds::keep(new, old, "status");
        job_spec::drop_disabled(new.at_mut(&["spec", "jobTemplate", "spec"]));
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        check_spec(object, None, errors);
        let name = object.str_at(&["metadata", "name"]);
        if name.len() > NAME_BYTES_MAX {
            let metadata = Path::root("metadata");
            let detail = "must be no more than 52 characters";
            errors.push(FieldError::invalid(&metadata.child("name"), name, detail));
        }
        require_schedule(object, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        check_spec(new, Some(old), errors);
        require_schedule(new, errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() {
            warn_about_name(new, &mut warnings);
        }
        let at = ["spec", "jobTemplate", "spec"];
        if let Some(spec) = new.at(&at)
            && old.is_none_or(|old| self.has_new_generation(new, old))
        {
            let root = Path::root("spec");
            let template = root.child("jobTemplate");
            job_spec::warn(spec, old.and_then(|old| old.at(&at)), &template.child("spec"), &mut warnings);
        }
        if old.is_some() && new.str_at(&["spec", "schedule"]).contains("TZ") {
            warnings.push(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                    .to_owned(),
            );
        }
        warnings
    }
}

fn check_spec(new: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let Some(spec) = new.get("spec") else { return };
    let old = old.and_then(|old| old.get("spec"));
    let path = Path::root("spec");
    check_schedule(errors, spec, old, &path.child("schedule"));
    check_nonnegative(errors, spec, &path, &["startingDeadlineSeconds"]);
    let zone = spec.get("timeZone");
    if let Some(name) = zone.and_then(Value::as_str)
        && old.is_none_or(|old| old.get("timeZone") != zone)
    {
        for fault in time_zone::faults(name) {
            errors.push(FieldError::invalid(&path.child("timeZone"), BadValue::json_string(name), fault));
        }
    }
    let policy = text(spec, "concurrencyPolicy");
    let policy_path = path.child("concurrencyPolicy");
    if policy.is_empty() {
        errors.push(FieldError::required(&policy_path, ""));
    } else if !POLICIES.contains(&policy) {
        errors.push(FieldError::not_supported(&policy_path, BadValue::json_string(policy), &POLICIES));
    }
    check_job_template(errors, spec, old, &path.child("jobTemplate"));
    check_nonnegative(errors, spec, &path, &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"]);
}

/// The error for a missing schedule comes last.
fn require_schedule(object: &Value, errors: &mut ErrorList) {
    if object.str_at(&["spec", "schedule"]).is_empty() {
        let spec = Path::root("spec");
        errors.push(FieldError::required(&spec.child("schedule"), ""));
    }
}

fn check_schedule(errors: &mut ErrorList, spec: &Value, old: Option<&Value>, path: &Path<'_>) {
    let schedule = text(spec, "schedule");
    if schedule.is_empty() {
        return;
    }
    if let Err(error) = schedule::Schedule::parse(schedule) {
        errors.push(FieldError::invalid(path, schedule, error.to_string()));
    }
    if !schedule.contains("TZ") {
        return;
    }
    let had_zone = old.is_some_and(|old| text(old, "schedule").contains("TZ"));
    if !had_zone {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.push(FieldError::invalid(path, schedule, detail));
    } else if spec.get("timeZone").is_some() {
        let detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
        errors.push(FieldError::invalid(path, schedule, detail));
    }
}

/// Jobs of a CronJob always have generated selectors.
fn check_job_template(errors: &mut ErrorList, spec: &Value, old: Option<&Value>, path: &Path<'_>) {
    let at = ["jobTemplate", "spec"];
    let Some(job) = spec.at(&at) else { return };
    let path = path.child("spec");
    job_spec::check(errors, job, old.and_then(|old| old.at(&at)), &path);
    if let Some(selector) = job.get("selector") {
        let detail = "`selector` will be auto-generated";
        errors.push(FieldError::invalid(&path.child("selector"), shown(Some(selector)), detail));
    }
    if job.get("manualSelector").and_then(Value::as_bool) == Some(true) {
        let path = path.child("manualSelector");
        errors.push(FieldError::not_supported(&path, true, &["nil", "false"]));
    }
}
