//! Apply conflicts: changed fields that other managers own.

use std::fmt;

use super::field_set::FieldPath;
use super::managers::{ManagedOperation, ManagerId};
use crate::quote::Quoted;
use crate::status::{CAUSE_FIELD_MANAGER_CONFLICT, Status, StatusCause};

/// A field that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldConflict {
    /// Owner of the field.
    pub manager: ManagerId,
    /// Path of the field.
    pub path: FieldPath,
}

/// All conflicts, by manager. A field with several owners occurs once for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(pub Vec<FieldConflict>);

/// A manager as shown in messages: `"name" with subresource "status" using apps/v1`.
struct Shown<'a>(&'a ManagerId);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Quoted(&self.0.manager))?;
        if !self.0.subresource.is_empty() {
            write!(f, " with subresource {}", Quoted(&self.0.subresource))?;
        }
        if self.0.operation == ManagedOperation::Update {
            write!(f, " using {}", self.0.api_version)?;
        }
        Ok(())
    }
}

impl Conflicts {
    /// Sorts conflicts by manager; those of one manager keep their order.
    #[must_use]
    pub fn new(mut found: Vec<FieldConflict>) -> Conflicts {
        found.sort_by_cached_key(|conflict| conflict.manager.to_text());
        Conflicts(found)
    }

    /// One status cause per conflict.
    #[must_use]
    pub fn causes(&self) -> Vec<StatusCause> {
        let cause = |conflict: &FieldConflict| StatusCause {
            reason: CAUSE_FIELD_MANAGER_CONFLICT.into(),
            message: format!("conflict with {}", Shown(&conflict.manager)).into(),
            field: conflict.path.to_string().into(),
        };
        self.0.iter().map(cause).collect()
    }

    /// Converts the conflicts into the response.
    #[must_use]
    pub fn to_status(&self) -> Status {
        Status::apply_conflict(self.causes(), self.to_string())
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(
                f,
                "Apply failed with 1 conflict: conflict with {}: {}",
                Shown(&only.manager),
                only.path
            );
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        for (at, group) in self.0.chunk_by(|a, b| a.manager == b.manager).enumerate() {
            write!(f, "{}conflicts with {}:", if at > 0 { "\n" } else { "" }, Shown(&group[0].manager))?;
            group.iter().try_for_each(|conflict| write!(f, "\n- {}", conflict.path))?;
        }
        Ok(())
    }
}

impl std::error::Error for Conflicts {}
