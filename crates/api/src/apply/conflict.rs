//! What stands in the way of an apply: fields that others own and that it would change.

use std::fmt;

use super::field_set::Path;
use super::managers::{ManagerId, Operation};
use crate::quote::Quoted;
use crate::status::{CAUSE_FIELD_MANAGER_CONFLICT, Cause, Status};

/// A field that somebody else owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Who owns it.
    pub manager: ManagerId,
    /// The field.
    pub path: Path,
}

/// All fields that others own, by manager. A field with several owners comes once for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

/// A manager as people read it: `"name" with subresource "status" using apps/v1`.
struct Shown<'a>(&'a ManagerId);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Quoted(&self.0.manager))?;
        if !self.0.subresource.is_empty() {
            write!(f, " with subresource {}", Quoted(&self.0.subresource))?;
        }
        if self.0.operation == Operation::Update {
            write!(f, " using {}", self.0.api_version)?;
        }
        Ok(())
    }
}

impl Conflicts {
    /// Conflicts in the order in which they are told: by manager, and for each in the order they are given.
    #[must_use]
    pub fn new(mut found: Vec<Conflict>) -> Conflicts {
        found.sort_by_cached_key(|conflict| conflict.manager.to_text());
        Conflicts(found)
    }

    /// One cause for each.
    #[must_use]
    pub fn causes(&self) -> Vec<Cause> {
        let cause = |conflict: &Conflict| Cause {
            reason: CAUSE_FIELD_MANAGER_CONFLICT.into(),
            message: format!("conflict with {}", Shown(&conflict.manager)).into(),
            field: conflict.path.to_string().into(),
        };
        self.0.iter().map(cause).collect()
    }

    /// The answer to the client.
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
