//! What `kubectl get` shows: the columns of every built-in kind, wide ones too, and an object's cells.
//!
//! [`columns`] and [`row`] are the heart, with one printer per kind, one file per group. [`mod@table`] builds the
//! answers that clients ask for: `Table`, `PartialObjectMetadata` and its list. Objects are those of the storage
//! version. A cell is what upstream shows for the same object at the same time; a kind without a printer of its
//! own shows its name and when it was created.

use crate::schema;
use crate::time::Time;
use crate::value::Value;

mod admissionregistration;
mod apiextensions;
mod apiregistration;
mod apps;
mod autoscaling;
mod batch;
mod cell;
mod certificates;
mod coordination;
mod core;
mod discovery;
mod duration;
mod flowcontrol;
mod networking;
mod node;
mod policy;
mod rbac;
mod resource;
mod scheduling;
mod storage;
mod storagemigration;
pub mod table;

#[cfg(test)]
mod tests;

pub use duration::human_duration;

/// A cell: text, a number or a truth value.
pub type Cell = Value;

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The header.
    pub name: &'static str,
    /// The type of its cells: `string`, `integer`, `boolean` or `date`.
    pub kind: &'static str,
    /// `name` if it holds the name of the object, otherwise empty.
    pub format: &'static str,
    /// 0, or 1 for a column that is only shown when more is asked for.
    pub priority: i32,
    doc: Doc,
}

/// Where the text that explains a column comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doc {
    /// It is this text.
    Own(&'static str),
    /// It is that of a field of a definition.
    Field(&'static str, &'static str),
}

impl Column {
    /// What it means, for people.
    #[must_use]
    pub fn description(&self) -> &'static str {
        match self.doc {
            Doc::Own(text) => text,
            Doc::Field(definition, field) => schema::builtin()
                .definition(definition)
                .and_then(|definition| definition.field(field))
                .map_or("", schema::Field::description),
        }
    }

    const fn text(name: &'static str, doc: Doc) -> Column {
        Column { name, kind: "string", format: "", priority: 0, doc }
    }

    const fn integer(name: &'static str, doc: Doc) -> Column {
        Column { kind: "integer", ..Column::text(name, doc) }
    }

    const fn boolean(name: &'static str, doc: Doc) -> Column {
        Column { kind: "boolean", ..Column::text(name, doc) }
    }

    const fn wide(name: &'static str, doc: Doc) -> Column {
        Column { priority: 1, ..Column::text(name, doc) }
    }
}

const NAME: Column = Column {
    format: "name",
    ..Column::text("Name", Doc::Field("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "name"))
};
const CREATED: Doc = Doc::Field("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "creationTimestamp");
const AGE: Column = Column::text("Age", CREATED);
const CREATED_AT: Column = Column { kind: "date", ..Column::text("Created At", CREATED) };
const CONTAINERS: Column = Column::wide("Containers", Doc::Own("The containers of the template, by name."));
const IMAGES: Column = Column::wide("Images", Doc::Own("The images that these containers run."));

/// The explanation of a field of a definition of an API group.
macro_rules! field {
    ($definition:literal, $field:literal) => {
        $crate::printing::Doc::Field(concat!("io.k8s.api.", $definition), $field)
    };
}

/// A row of cells.
macro_rules! cells {
    ($($cell:expr),+ $(,)?) => {
        vec![$($crate::value::Value::from($cell)),+]
    };
}

use {cells, field};

/// Changes the rows of a list where its objects mean something for each other.
type AcrossList = fn(&[&Value], &mut [Vec<Cell>]);

/// How a kind is shown.
struct Printer {
    columns: &'static [Column],
    row: fn(&Value, Time) -> Vec<Cell>,
    /// What a list shows beyond its objects one by one.
    list: Option<AcrossList>,
    /// Whether a table without objects has null in place of rows.
    is_null_without_rows: bool,
}

impl Printer {
    const fn new(columns: &'static [Column], row: fn(&Value, Time) -> Vec<Cell>) -> Printer {
        Printer { columns, row, list: None, is_null_without_rows: false }
    }
}

static DEFAULT: Printer = Printer {
    is_null_without_rows: true,
    ..Printer::new(&[NAME, CREATED_AT], |object, _| cells![cell::name(object), cell::created_at(object)])
};

/// Objects of which nothing is to be said but their name and age.
static NAME_AND_AGE: Printer =
    Printer::new(&[NAME, AGE], |object, now| cells![cell::name(object), cell::age(object, now)]);

fn printer(group: &str, kind: &str) -> &'static Printer {
    let found = match group {
        "" => core::printer(kind),
        "admissionregistration.k8s.io" => admissionregistration::printer(kind),
        "apiextensions.k8s.io" => apiextensions::printer(kind),
        "apiregistration.k8s.io" => apiregistration::printer(kind),
        "apps" => apps::printer(kind),
        "autoscaling" => autoscaling::printer(kind),
        "batch" => batch::printer(kind),
        "certificates.k8s.io" => certificates::printer(kind),
        "coordination.k8s.io" => coordination::printer(kind),
        "discovery.k8s.io" => discovery::printer(kind),
        "events.k8s.io" => core::event::printer(kind),
        "flowcontrol.apiserver.k8s.io" => flowcontrol::printer(kind),
        "networking.k8s.io" => networking::printer(kind),
        "node.k8s.io" => node::printer(kind),
        "policy" => policy::printer(kind),
        "rbac.authorization.k8s.io" => rbac::printer(kind),
        "resource.k8s.io" => resource::printer(kind),
        "scheduling.k8s.io" => scheduling::printer(kind),
        "storage.k8s.io" => storage::printer(kind),
        "storagemigration.k8s.io" => storagemigration::printer(kind),
        _ => None,
    };
    found.unwrap_or(&DEFAULT)
}

/// The columns of a kind.
#[must_use]
pub fn columns(group: &str, kind: &str) -> &'static [Column] {
    printer(group, kind).columns
}

/// The cells of an object, for all columns of its kind.
#[must_use]
pub fn row(group: &str, kind: &str, object: &Value, now: Time) -> Vec<Cell> {
    (printer(group, kind).row)(object, now)
}
