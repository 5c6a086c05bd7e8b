//! Compiled configuration: classifies requests.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use setpoint_api::{Identity, RequestInfo};

use super::LevelHandle;
use crate::objects::flow_schema::FlowSchema;
use crate::objects::priority_level::CATCH_ALL;

/// FlowSchemas with their levels, in the order of matching.
#[derive(Debug)]
pub struct Configuration<W> {
    pub(super) generation: u64,
    pub(super) schemas: Vec<Schema<W>>,
}

/// A FlowSchema with its level.
#[derive(Debug)]
pub struct Schema<W> {
    /// The FlowSchema.
    pub schema: FlowSchema,
    /// Name of its level.
    pub level_name: Box<str>,
    /// UID of the PriorityLevelConfiguration.
    pub level_uid: Box<str>,
    /// `true` if the level has no limit.
    pub is_exempt: bool,
    /// Position of the FlowSchema in the statistics of the level.
    pub position: usize,
    /// The level.
    pub level: Arc<LevelHandle<W>>,
}

impl<W> Configuration<W> {
    /// Generation of the configuration.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// FlowSchemas in the order of matching.
    #[must_use]
    pub fn schemas(&self) -> &[Schema<W>] {
        &self.schemas
    }

    /// Returns the position of the first FlowSchema that matches a request; that of `catch-all` if none does.
    #[must_use]
    pub fn classify(&self, user: &Identity, request: &RequestInfo<'_>) -> usize {
        let matching = self.schemas.iter().position(|schema| schema.schema.matches(user, request));
        matching.unwrap_or_else(|| {
            let fallback = self.schemas.iter().position(|schema| *schema.schema.name == *CATCH_ALL);
            fallback.expect("a configuration has the mandatory FlowSchemas")
        })
    }
}

/// Hashes a flow. The seed keeps clients from choosing names whose flows have the queues of another flow.
#[must_use]
pub fn flow_hash(seed: u64, schema: &str, flow: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(seed);
    hasher.write(schema.as_bytes());
    hasher.write_u8(0);
    hasher.write(flow.as_bytes());
    hasher.finish()
}
