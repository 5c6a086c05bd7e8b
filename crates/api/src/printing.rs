//! Server-side printing: the columns and rows of `kubectl get` for every built-in kind, including wide
//! columns.
//!
//! [`columns`] and [`row`] are the entry points, with one printer per kind and one file per group.
//! [`mod@table`] builds the responses `Table` and `PartialObjectMetadata` with its list. Objects are in the
//! storage version. A cell equals that of upstream for the same object at the same time; a kind without a
//! printer shows its name and creation time.

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
pub mod custom;
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

/// A cell: a string, number or boolean.
pub type Cell = Value;

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Header of the column.
    pub name: &'static str,
    /// Type of its cells: `string`, `integer`, `boolean` or `date`.
    pub kind: &'static str,
    /// `name` for the name of the object, otherwise empty.
    pub format: &'static str,
    /// 0, or 1 for a wide column.
    pub priority: i32,
    doc: Doc,
}

/// Source of a column's description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doc {
    /// This text.
    Own(&'static str),
    /// The description of a field of a definition.
    Field(&'static str, &'static str),
}

impl Column {
    /// Description of the column.
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
const CONTAINERS: Column = Column::wide("Containers", Doc::Own("Names of the containers in the template."));
const IMAGES: Column = Column::wide("Images", Doc::Own("Images of the containers in the template."));

/// Description of a field of an API definition.
macro_rules! field {
    ($definition:literal, $field:literal) => {
        $crate::printing::Doc::Field(concat!("io.k8s.api.", $definition), $field)
    };
}

/// Builds a row of cells.
macro_rules! cells {
    ($($cell:expr),+ $(,)?) => {
        vec![$($crate::value::Value::from($cell)),+]
    };
}

use {cells, field};

/// Modifies the rows of a list where they depend on several objects.
type AcrossList = fn(&[&Value], &mut [Vec<Cell>]);

/// Table printer of a kind.
struct Printer {
    columns: &'static [Column],
    row: fn(&Value, Time) -> Vec<Cell>,
    /// Post-processing of a whole list.
    list: Option<AcrossList>,
    /// `true` if a table without objects has null instead of an empty list of rows.
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

/// Kinds that show only name and age.
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

/// Columns of a kind.
#[must_use]
pub fn columns(group: &str, kind: &str) -> &'static [Column] {
    printer(group, kind).columns
}

/// Cells of an object, for all columns of its kind.
#[must_use]
pub fn row(group: &str, kind: &str, object: &Value, now: Time) -> Vec<Cell> {
    (printer(group, kind).row)(object, now)
}
