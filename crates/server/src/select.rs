//! Selectors of lists and watches.

mod served_fields;

use std::sync::Arc;

use setpoint_api::printing::table::TableOptions;
use setpoint_api::status::Status;
use setpoint_api::{fields, labels};
use setpoint_store::{Record, RecordSelector, WatchFilter};

use crate::media::{Form, Representation};
use crate::query::QueryParams;
use crate::route::Target;

pub(crate) use self::served_fields::{ServedFields, event_type};

/// Label and field selectors together, compiled: a list matches each of its objects, a watch each event.
///
/// As a [`RecordSelector`] it matches by what is stored with a record. That leaves out the fields that a definition makes
/// selectable, see [`ServedFields`].
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    labels: labels::CompiledSelector,
    fields: fields::FieldSelector,
    compiled_fields: fields::CompiledFieldSelector,
    served: Option<Arc<ServedFields>>,
}

impl Selection {
    /// Parses the selectors of a request.
    ///
    /// # Errors
    /// If one is malformed, or a field is not selectable.
    pub fn parse(target: &Target, query: &QueryParams) -> Result<Selection, Status> {
        let labels = labels::Selector::parse(query.get("labelSelector"))
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let fields = fields::FieldSelector::parse(query.get("fieldSelector"))
            .and_then(|selector| target.resource_type.rules.translate_fields(selector))
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let is_stored = |field: &str| target.resource_type.custom.is_none() || is_metadata(field);
        let (fields, served) = fields.partition(is_stored);
        let served = (!served.is_everything()).then(|| {
            let resource_type = Arc::clone(&target.resource_type);
            Arc::new(ServedFields::new(resource_type, &served))
        });
        let compiled_fields = fields::CompiledFieldSelector::new(&fields);
        Ok(Selection { labels: labels::CompiledSelector::new(&labels), fields, compiled_fields, served })
    }

    /// `true` if everything is selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything() && self.served.is_none()
    }

    /// Fields to match beside what is stored with a record.
    #[must_use]
    pub fn served_fields(&self) -> Option<&Arc<ServedFields>> {
        self.served.as_ref()
    }

    /// Cursor filter with the smallest wakeup index that covers what is stored with a record.
    #[must_use]
    pub fn filter(self, target: &Target) -> WatchFilter {
        let namespace = Some(&target.namespace).filter(|namespace| !namespace.is_empty()).cloned();
        let name = self.fields.required_value("metadata.name").map(str::to_owned);
        let name = Some(&target.name).filter(|name| !name.is_empty()).cloned().or(name);
        let own = |term: &&fields::Term| !is_metadata(&term.field);
        let field = self.fields.terms().iter().find(own).and_then(|term| {
            let value = self.fields.required_value(&term.field)?;
            Some((term.field.to_string(), value.to_owned()))
        });
        let selector = (!self.is_everything()).then(|| Arc::new(self) as Arc<dyn RecordSelector>);
        WatchFilter { namespace, name, field, selector }
    }
}

/// `true` for the fields that every kind has.
fn is_metadata(field: &str) -> bool {
    field.starts_with("metadata.")
}

/// Properties that two lists or two watches must have in common to show the same objects in the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ViewKey {
    pub(crate) resource_type: usize,
    pub(crate) form: Form,
    /// View and options of the table, printed.
    pub(crate) view: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
}

impl ViewKey {
    /// Key of a list or a watch.
    #[must_use]
    pub fn new(
        target: &Target,
        query: &QueryParams,
        (form, view): (Form, Representation),
        table: TableOptions,
    ) -> ViewKey {
        ViewKey {
            resource_type: target.resource_type.index,
            form,
            view: format!("{view:?} {table:?}"),
            namespace: target.namespace.clone(),
            name: target.name.clone(),
            label_selector: query.get("labelSelector").to_owned(),
            field_selector: query.get("fieldSelector").to_owned(),
        }
    }
}

impl RecordSelector for Selection {
    fn matches(&self, record: &Record) -> bool {
        let attributes = record.attributes();
        self.labels.matches(attributes.labels())
            && self.compiled_fields.matches(|field| match field {
                "metadata.name" => Some(record.name()),
                "metadata.namespace" => Some(record.namespace().unwrap_or_default()),
                field => Some(attributes.field(field).unwrap_or_default()),
            })
    }
}
