//! Answers that take milliseconds with thousands of rules: on a thread where no decision waits for them, and
//! few at a time.

use tokio::sync::Semaphore;
use tollgate_http_kit::{Problem, Reply};

/// Slow answers that are made at the same time, for each surface and worker.
const AT_ONCE: usize = 2;

/// Makes slow answers.
#[derive(Debug)]
pub(crate) struct Slow(Semaphore);

impl Default for Slow {
    fn default() -> Self {
        Self(Semaphore::new(AT_ONCE))
    }
}

impl Slow {
    /// The reply that `work` makes.
    pub(crate) async fn reply(
        &self,
        work: impl FnOnce() -> Reply + Send + 'static,
    ) -> Result<Reply, Problem> {
        let _turn = self.0.acquire().await.map_err(|_| Problem::internal())?;
        tokio::task::spawn_blocking(work).await.map_err(|_| Problem::internal())
    }
}
