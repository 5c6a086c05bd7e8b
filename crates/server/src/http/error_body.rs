//! Stream adapter that adds a `Status` body to errors of the HTTP/1.1 parser.
//!
//! Malformed requests and oversized headers never reach a handler: the library responds with a bare head and closes
//! the connection. Every response of ours has an `audit-id`, so a head without one is such an error, and is replaced.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use setpoint_api::status::Status;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Start of the head of a client error.
const CLIENT_ERROR_PREFIX: &[u8] = b"HTTP/1.1 4";

/// A stream that replaces bare error heads.
pub(super) struct ErrorBodyStream<S> {
    stream: S,
    /// Unsent bytes of the replacement.
    unsent: Bytes,
}

impl<S> ErrorBodyStream<S> {
    pub fn new(stream: S) -> ErrorBodyStream<S> {
        ErrorBodyStream { stream, unsent: Bytes::new() }
    }
}

/// Status code of a bare error head; `None` for anything else.
fn bare_error_code(head: &[u8]) -> Option<u16> {
    if !head.starts_with(CLIENT_ERROR_PREFIX) || !head.ends_with(b"\r\n\r\n") {
        return None;
    }
    let head = std::str::from_utf8(head).ok()?;
    let is_ours =
        head.lines().any(|line| line.get(..9).is_some_and(|name| name.eq_ignore_ascii_case("audit-id:")));
    if is_ours { None } else { head.get(9..12)?.parse().ok() }
}

/// An error response with a body.
fn error_response(code: u16) -> Bytes {
    let (reason, status) = match code {
        414 => ("URI Too Long", Status::unclassified(code, "the path of the request is too long")),
        431 => (
            "Request Header Fields Too Large",
            Status::unclassified(code, "the header fields of the request are too many or too large"),
        ),
        _ => ("Bad Request", Status::bad_request("the request is not HTTP as this server speaks it")),
    };
    let code = status.code;
    let mut body = status.to_json();
    body.push(b'\n');
    let head = format!(
        "HTTP/1.1 {code} {reason}\r\nconnection: close\r\ncache-control: no-cache, private\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body].concat().into()
}

impl<S: AsyncWrite + Unpin> ErrorBodyStream<S> {
    /// Writes an error response in place of `head` if it is a bare error head; `None` otherwise. All of `head` counts
    /// as written once the replacement is.
    fn replace(&mut self, context: &mut Context<'_>, head: &[u8]) -> Option<Poll<io::Result<usize>>> {
        if self.unsent.is_empty() {
            self.unsent = error_response(bare_error_code(head)?);
        }
        Some(self.finish(context).map_ok(|()| head.len()))
    }

    fn finish(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.unsent))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unsent.advance(written);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ErrorBodyStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ErrorBodyStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.replace(context, data) {
            Some(written) => written,
            None => Pin::new(&mut self.stream).poll_write(context, data),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // A bare head is written alone.
        match data.first().filter(|_| data.len() == 1).and_then(|head| self.replace(context, head)) {
            Some(written) => written,
            None => Pin::new(&mut self.stream).poll_write_vectored(context, data),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bare_error_head_is_replaced() {
        let head = |text: &str| bare_error_code(text.as_bytes());
        assert_eq!(
            head("HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"),
            Some(400)
        );
        assert_eq!(
            head("HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n\r\n"),
            Some(431)
        );
        for ours in [
            "HTTP/1.1 404 Not Found\r\naudit-id: x\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\nAudit-Id: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\n\r\nbody",
            "a part of a body",
        ] {
            assert_eq!(head(ours), None, "{ours}");
        }
    }
}
