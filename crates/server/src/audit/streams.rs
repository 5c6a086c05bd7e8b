//! Bodies of audited responses: the last event of the request is made when the body ends.

use std::task::{Context, Poll};

use bytes::Bytes;

use super::backend::EVENT_BYTES_MAX;
use super::request::AuditedRequest;
use super::response::ResponseForm;
use crate::exchange::{BodyPart, Chunks, Frames};

/// A stream whose request is complete when it is dropped.
pub(super) struct AuditedFrames {
    frames: Box<dyn Frames>,
    audited: AuditedRequest,
    /// `true` while the stream is polled, so that a panic is found when it is dropped.
    is_polled: bool,
}

impl AuditedFrames {
    pub(super) fn new(frames: Box<dyn Frames>, audited: AuditedRequest) -> AuditedFrames {
        AuditedFrames { frames, audited, is_polled: false }
    }
}

impl Frames for AuditedFrames {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.is_polled = true;
        let polled = self.frames.poll_frame(context);
        self.is_polled = false;
        polled
    }

    fn has_failed(&self) -> bool {
        self.frames.has_failed()
    }

    fn is_initialized(&self) -> bool {
        self.frames.is_initialized()
    }
}

impl Drop for AuditedFrames {
    fn drop(&mut self) {
        if self.is_polled {
            self.audited.set_panicked();
        }
    }
}

/// A large body that is recorded as response object.
pub(super) struct AuditedChunks {
    chunks: Box<dyn Chunks>,
    form: ResponseForm,
    audited: AuditedRequest,
    recorded: Vec<u8>,
    is_encoded: bool,
}

impl AuditedChunks {
    pub(super) fn new(chunks: Box<dyn Chunks>, form: ResponseForm, audited: AuditedRequest) -> AuditedChunks {
        AuditedChunks { chunks, form, audited, recorded: Vec::new(), is_encoded: false }
    }
}

impl Chunks for AuditedChunks {
    fn next_chunk(&mut self) -> Option<BodyPart> {
        self.is_encoded = true;
        let next = self.chunks.next_chunk();
        self.is_encoded = false;
        match &next {
            Some(part) if self.recorded.len() + part.len() > EVENT_BYTES_MAX => {
                self.audited.truncate();
                self.recorded = Vec::new();
            }
            Some(part) => self.recorded.extend_from_slice(part),
            None => {
                let recorded = std::mem::take(&mut self.recorded);
                self.audited.set_response_object(self.form, &recorded);
            }
        }
        next
    }

    fn held_bytes(&self) -> usize {
        self.chunks.held_bytes() + self.recorded.len()
    }
}

impl Drop for AuditedChunks {
    fn drop(&mut self) {
        if self.is_encoded {
            self.audited.set_panicked();
        }
    }
}
