//! Threads of the server: one reactor per core, and workers for long work.
//!
//! A connection stays on one reactor, so a small request is read, processed and answered without waking another
//! thread. Requests and encodings whose cost grows with their input run on workers. Workers should have a lower
//! priority ([`ThreadCounts::on_worker_start`]): the kernel then gives a core to a reactor as soon as a small request
//! arrives, however busy the workers are.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;

/// Maximum number of reactors: with more, the store's single writer is the bottleneck.
const REACTORS_MAX: usize = 16;
/// Polls of tasks after which a busy reactor looks for new readiness of sockets. Small, since each poll may encrypt and
/// write tens of kilobytes, and a new request waits for that many of them.
const EVENT_INTERVAL: u32 = 8;

/// Number and setup of the threads.
#[derive(Clone, Copy, Debug)]
pub struct ThreadCounts {
    /// Reactors to start.
    pub reactors: usize,
    /// Workers to start.
    pub workers: usize,
    /// Runs on each worker when it starts, to lower its priority.
    pub on_worker_start: fn(),
}

impl ThreadCounts {
    /// One reactor and one worker per core.
    #[must_use]
    pub fn per_core(on_worker_start: fn()) -> ThreadCounts {
        let cores = std::thread::available_parallelism().map_or(1, usize::from).min(REACTORS_MAX);
        ThreadCounts { reactors: cores, workers: cores, on_worker_start }
    }
}

/// Running threads. Dropping them ends the reactors and their connections.
pub struct Threads {
    reactors: Vec<Reactor>,
    workers: Option<Runtime>,
    /// Reactors run until it is dropped.
    _running: watch::Sender<()>,
}

struct Reactor {
    handle: Handle,
    connections: Arc<AtomicUsize>,
}

/// Slot of a connection on its reactor, released on drop.
pub(super) struct ReactorSlot(Arc<AtomicUsize>);

impl Drop for ReactorSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Threads {
    /// Starts the threads.
    ///
    /// # Errors
    /// If a thread or an event queue cannot be created.
    pub fn start(counts: ThreadCounts) -> io::Result<Threads> {
        let (running, shutdown) = watch::channel(());
        let reactors = (0..counts.reactors.max(1)).map(|number| Reactor::start(number, shutdown.clone()));
        let reactors = reactors.collect::<io::Result<Vec<Reactor>>>()?;
        let workers = Builder::new_multi_thread()
            .worker_threads(counts.workers.max(1))
            .thread_name("worker")
            .on_thread_start(counts.on_worker_start)
            .enable_all()
            .build()?;
        Ok(Threads { reactors, workers: Some(workers), _running: running })
    }

    /// Returns the reactor with the fewest connections, and a slot on it.
    pub(super) fn assign_reactor(&self) -> (&Handle, ReactorSlot) {
        let connections = |reactor: &&Reactor| reactor.connections.load(Ordering::Relaxed);
        let reactor = self.reactors.iter().min_by_key(connections).expect("there is at least one reactor");
        reactor.connections.fetch_add(1, Ordering::Relaxed);
        (&reactor.handle, ReactorSlot(Arc::clone(&reactor.connections)))
    }

    /// Returns the executor of the workers.
    pub(super) fn workers(&self) -> &Handle {
        self.workers.as_ref().expect("workers run until the threads are dropped").handle()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(workers) = self.workers.take() {
            workers.shutdown_background();
        }
    }
}

impl Reactor {
    fn start(number: usize, mut shutdown: watch::Receiver<()>) -> io::Result<Reactor> {
        let runtime = Builder::new_current_thread().enable_all().event_interval(EVENT_INTERVAL).build()?;
        let handle = runtime.handle().clone();
        std::thread::Builder::new().name(format!("reactor-{number}")).spawn(move || {
            runtime.block_on(async move {
                if shutdown.changed().await.is_ok() {
                    // No value is ever sent; the channel only closes.
                    pending::<()>().await;
                }
            });
            runtime.shutdown_background();
        })?;
        Ok(Reactor { handle, connections: Arc::default() })
    }
}
