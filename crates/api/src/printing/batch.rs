//! Printers of the group `batch`.

use super::cell::{
    age, containers, count, has_condition, int, is_deleted, name, selector_text, since, text_or, time,
};
use super::{AGE, CONTAINERS, Cell, Column, Doc, IMAGES, NAME, Printer, cells, field, human_duration};
use crate::time::Time;
use crate::value::Value;

pub(super) fn printer(kind: &str) -> Option<&'static Printer> {
    Some(match kind {
        "CronJob" => &CRON_JOB,
        "Job" => &JOB,
        _ => return None,
    })
}

const SELECTOR: Column = Column::wide("Selector", field!("batch.v1.JobSpec", "selector"));

static CRON_JOB: Printer = Printer::new(
    &[
        NAME,
        Column::text("Schedule", field!("batch.v1.CronJobSpec", "schedule")),
        Column::text("Timezone", field!("batch.v1.CronJobSpec", "timeZone")),
        Column::boolean("Suspend", field!("batch.v1.CronJobSpec", "suspend")),
        Column::integer("Active", field!("batch.v1.CronJobStatus", "active")),
        Column::text("Last Schedule", field!("batch.v1.CronJobStatus", "lastScheduleTime")),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cron_job,
);

fn cron_job(object: &Value, now: Time) -> Vec<Cell> {
    let job = object.at(&["spec", "jobTemplate", "spec"]).unwrap_or(&Value::Null);
    let (names, images) = containers(job.at(&["template", "spec"]));
    let suspend = match object.at(&["spec", "suspend"]).and_then(Value::as_bool) {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let last = match object.at(&["status", "lastScheduleTime"]) {
        None | Some(Value::Null) => "<none>".to_owned(),
        last => since(last, now),
    };
    cells![
        name(object),
        object.str_at(&["spec", "schedule"]),
        text_or(object, &["spec", "timeZone"], "<none>"),
        suspend,
        count(object, &["status", "active"]),
        last,
        age(object, now),
        names,
        images,
        selector_text(job.get("selector")),
    ]
}

static JOB: Printer = Printer::new(
    &[
        NAME,
        Column::text("Status", Doc::Own("Status of the job.")),
        Column::text("Completions", field!("batch.v1.JobStatus", "succeeded")),
        Column::text("Duration", Doc::Own("Time since the start of the job, or until its completion.")),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    job,
);

fn job(object: &Value, now: Time) -> Vec<Cell> {
    let start = time(object.at(&["status", "startTime"]));
    let end = time(object.at(&["status", "completionTime"])).unwrap_or(now);
    let (names, images) = containers(object.at(&["spec", "template", "spec"]));
    cells![
        name(object),
        status(object),
        completions(object),
        start.map_or_else(String::new, |start| human_duration(start, end)),
        age(object, now),
        names,
        images,
        selector_text(object.at(&["spec", "selector"])),
    ]
}

fn completions(object: &Value) -> String {
    let succeeded = int(object, &["status", "succeeded"]);
    match (object.at(&["spec", "completions"]), int(object, &["spec", "parallelism"])) {
        (Some(Value::Int(completions)), _) => format!("{succeeded}/{completions}"),
        (_, parallelism @ 2..) => format!("{succeeded}/1 of {parallelism}"),
        _ => format!("{succeeded}/1"),
    }
}

fn status(object: &Value) -> &'static str {
    let first = |kinds: &[&'static str]| kinds.iter().copied().find(|kind| has_condition(object, kind));
    first(&["Complete", "Failed"])
        .or_else(|| is_deleted(object).then_some("Terminating"))
        .or_else(|| first(&["Suspended", "FailureTarget", "SuccessCriteriaMet"]))
        .unwrap_or("Running")
}
