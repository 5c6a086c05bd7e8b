//! Socket with a write timeout and bounded bursts.
//!
//! A write fails if the peer reads nothing for the timeout. A peer that reads as fast as the server writes does not
//! monopolize its reactor: after [`BURST_BYTES`] the task yields to other connections.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// Bytes that are written before the reactor polls its other tasks: about a tenth of a millisecond with encryption.
const BURST_BYTES: usize = 128 * 1024;

/// Stream whose writes fail after `timeout` without progress.
pub(super) struct BoundedStream {
    stream: TcpStream,
    timeout: Duration,
    /// Bytes written since the task last yielded.
    burst: usize,
    /// Armed while a write is pending.
    stall_timer: Option<Pin<Box<Sleep>>>,
}

impl BoundedStream {
    pub fn new(stream: TcpStream, timeout: Duration) -> BoundedStream {
        BoundedStream { stream, timeout, burst: 0, stall_timer: None }
    }

    /// `true` if the burst is exhausted. The task is then rescheduled behind all ready tasks.
    fn is_burst_exhausted(&mut self, context: &mut Context<'_>) -> bool {
        let is_exhausted = self.burst >= BURST_BYTES;
        if is_exhausted {
            self.burst = 0;
            context.waker().wake_by_ref();
        }
        is_exhausted
    }

    /// Returns the result of a write, or an error if writes have been pending for too long.
    #[expect(clippy::disallowed_methods, reason = "a connection owns the timer of its writes")]
    fn check_stall(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(result) = &written {
            self.stall_timer = None;
            self.burst += result.as_ref().map_or(0, |bytes| *bytes);
            return written;
        }
        self.burst = 0;
        let timeout = self.timeout;
        let stall_timer = self.stall_timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        ready!(stall_timer.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for BoundedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for BoundedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_burst_exhausted(context) {
            return Poll::Pending;
        }
        let written = Pin::new(&mut self.stream).poll_write(context, data);
        self.check_stall(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_burst_exhausted(context) {
            return Poll::Pending;
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, data);
        self.check_stall(context, written)
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
