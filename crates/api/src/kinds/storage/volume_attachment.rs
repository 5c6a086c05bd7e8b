//! VolumeAttachment: the intent to attach a volume to a node.

use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::{ALL_BUT_STATUS, Rules, check};
use crate::names::dns;
use crate::value::Value;

const ATTACHER_CHARACTERS_MAX: usize = 63;
const METADATA_BYTES_MAX: usize = 256 << 10;
const MESSAGE_BYTES_MAX: usize = 1024;

/// Rules of VolumeAttachment. An inline volume is not validated.
pub struct VolumeAttachment;

impl Rules for VolumeAttachment {
    fn status_reset_fields(&self) -> &'static [&'static str] {
        ALL_BUT_STATUS
    }

    fn has_status(&self) -> bool {
        true
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        check_fields(object, errors);
        check_attacher(errors, object.str_at(&["spec", "attacher"]));
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec");
        check::check_csi_driver_name(errors, &path.child("attacher"), new.str_at(&["spec", "attacher"]));
        check_fields(new, errors);
        check::check_immutable(errors, &path, check::field(new, "spec"), check::field(old, "spec"));
    }

    fn validate_status(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        self.validate_update(new, old, errors);
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

fn check_attacher(errors: &mut ErrorList, name: &str) {
    let path = Path::root("spec");
    let path = path.child("attacher");
    if name.is_empty() {
        return errors.push(FieldError::required(&path, ""));
    }
    errors.push_invalid(&path, name, dns::subdomain_caseless(name));
    if name.chars().count() > ATTACHER_CHARACTERS_MAX {
        errors.push(FieldError::too_long_characters(&path, ATTACHER_CHARACTERS_MAX));
    }
}

fn check_fields(object: &Value, errors: &mut ErrorList) {
    let (spec, path) = (check::field(object, "spec"), Path::root("spec"));
    let source = check::field(spec, "source");
    let at = path.child("source");
    let name = check::field(source, "persistentVolumeName").as_str();
    let exactly_one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (check::is_set(source, "inlineVolumeSpec"), name) {
        (false, None) => errors.push(FieldError::required(&at, exactly_one)),
        (true, Some(_)) => errors.push(FieldError::forbidden(&at, exactly_one)),
        (false, Some("")) => {
            let detail = "must specify non empty persistentVolumeName";
            errors.push(FieldError::required(&at.child("persistentVolumeName"), detail));
        }
        _ => {}
    }
    let node = check::text(spec, "nodeName");
    errors.push_invalid(&path.child("nodeName"), node, dns::subdomain(node));
    check_status(errors, check::field(object, "status"));
    if let Some(name) = name {
        errors.push_invalid(&at.child("persistentVolumeName"), name, dns::subdomain(name));
    }
}

fn check_status(errors: &mut ErrorList, status: &Value) {
    let path = Path::root("status");
    let metadata = check::text_entries(status, "attachmentMetadata");
    let bytes: usize = metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > METADATA_BYTES_MAX {
        errors.push(FieldError::too_long(&path.child("attachmentMetadata"), METADATA_BYTES_MAX));
    }
    for name in ["attachError", "detachError"] {
        let (error, path) = (check::field(status, name), path.child(name));
        if check::text(error, "message").len() > MESSAGE_BYTES_MAX {
            errors.push(FieldError::too_long(&path.child("message"), MESSAGE_BYTES_MAX));
        }
        if let Some(code) = check::field(error, "errorCode").as_i64().filter(|code| *code < 0) {
            let detail = "must be between 0 and 2147483647, inclusive";
            errors.push(FieldError::invalid(&path.child("errorCode"), code, detail));
        }
    }
}
