//! Queries that need requests to API servers, so that their answers arrive later.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::{future::Future, pin::Pin};

use setpoint_api::{Key, Value};
use setpoint_reconcile::Query;
use tokio::sync::oneshot;

/// Maximum number of queries in flight; more fail, and are repeated after a pause.
const IN_FLIGHT_QUERIES_MAX: usize = 1024;

/// Answer that arrives later. A handler that is dropped gives no answer.
pub type PendingAnswer = oneshot::Receiver<Result<Value, String>>;

/// Handler of queries that wait for a server.
pub trait ApiQueries: Send + Sync {
    /// Starts a query without waiting; `None` if it is answered elsewhere.
    fn start(&self, query: &Query) -> Option<PendingAnswer>;
}

/// Answered query of a controller: its name, the key, the id of the query, and the answer.
pub(crate) type Answered = (&'static str, Key, String, Result<Value, String>);

/// Queries in flight of an in-process loop.
#[derive(Default)]
pub(crate) struct QueriesInFlight(Vec<(&'static str, Key, String, PendingAnswer)>);

impl QueriesInFlight {
    /// Starts a query if `handler` answers it later. Returns `None` if it must be answered at once.
    pub fn start(
        &mut self,
        handler: Option<&Arc<dyn ApiQueries>>,
        (controller, key, query): (&'static str, &Key, &Query),
    ) -> Option<Result<(), String>> {
        if self.0.len() >= IN_FLIGHT_QUERIES_MAX {
            return Some(Err("too many queries are in flight".to_owned()));
        }
        let pending = handler?.start(query)?;
        self.0.push((controller, key.clone(), query.id.clone(), pending));
        Some(Ok(()))
    }

    /// Returns the answers that have arrived. Those in flight wake the context.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Vec<Answered> {
        let mut answered = Vec::new();
        let mut at = 0;
        while let Some((.., pending)) = self.0.get_mut(at) {
            match Pin::new(pending).poll(context) {
                Poll::Pending => at += 1,
                Poll::Ready(answer) => {
                    let (controller, key, id, _) = self.0.swap_remove(at);
                    let answer = answer.unwrap_or_else(|_| Err("the query was dropped".to_owned()));
                    answered.push((controller, key, id, answer));
                }
            }
        }
        answered
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use parking_lot::Mutex;

    use super::*;

    /// Handler whose answers the test sends.
    #[derive(Default)]
    struct Manual(Mutex<Vec<oneshot::Sender<Result<Value, String>>>>);

    impl ApiQueries for Manual {
        fn start(&self, query: &Query) -> Option<PendingAnswer> {
            let (sender, receiver) = oneshot::channel();
            self.0.lock().push(sender);
            (query.target == "metrics").then_some(receiver)
        }
    }

    fn query(target: &'static str, id: &str) -> Query {
        Query { target, id: id.to_owned(), question: Value::Null }
    }

    #[test]
    fn answers_are_delivered_when_they_arrive() {
        let key = setpoint_reconcile::planner::key_of("pods", "a", "b").unwrap();
        let manual = Arc::new(Manual::default());
        let handler: Arc<dyn ApiQueries> = Arc::clone(&manual) as _;
        let mut queries = QueriesInFlight::default();
        let mut context = Context::from_waker(Waker::noop());
        for id in ["1", "2"] {
            assert_eq!(queries.start(Some(&handler), ("c", &key, &query("metrics", id))), Some(Ok(())));
        }
        assert_eq!(queries.start(Some(&handler), ("c", &key, &query("sign", "3"))), None);
        assert_eq!(queries.start(None, ("c", &key, &query("metrics", "4"))), None);
        assert!(queries.poll(&mut context).is_empty());
        let mut senders = std::mem::take(&mut *manual.0.lock()).into_iter();
        senders.next().unwrap().send(Ok(Value::from(1))).unwrap();
        let answers = queries.poll(&mut context);
        assert_eq!(answers, [("c", key.clone(), "1".to_owned(), Ok(Value::from(1)))]);
        drop(senders);
        assert_eq!(queries.poll(&mut context)[0].3, Err("the query was dropped".to_owned()));
    }
}
