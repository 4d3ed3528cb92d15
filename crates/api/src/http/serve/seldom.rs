//! A future that is polled only once it was woken, beside one that is polled all the time.
//!
//! A connection is woken for every request. What else may end it (the server's stop, its judge's
//! next look) is asked for each time if both are simply polled together, and never has an answer.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures_util::task::AtomicWaker;
use pin_project_lite::pin_project;

pin_project! {
    pub(super) struct Seldom<F> {
        #[pin]
        future: F,
        bell: Arc<Bell>,
        // Rings the bell.
        waker: Waker,
    }
}

struct Bell {
    has_rung: AtomicBool,
    owner: AtomicWaker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // ORDER: rung before the owner is woken, who looks at it.
        self.has_rung.store(true, Ordering::Release);
        self.owner.wake();
    }
}

impl<F> Seldom<F> {
    pub(super) fn new(future: F) -> Self {
        // Rung once, for the first poll.
        let bell = Arc::new(Bell { has_rung: AtomicBool::new(true), owner: AtomicWaker::new() });
        Self { future, waker: Arc::clone(&bell).into(), bell }
    }
}

impl<F: Future> Future for Seldom<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        // ORDER: registered before the bell is looked at, so that a ring in between wakes.
        this.bell.owner.register(context.waker());
        if !this.bell.has_rung.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        this.bell.has_rung.store(false, Ordering::Relaxed);
        this.future.poll(&mut Context::from_waker(this.waker))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::{
        sync::oneshot,
        time::{Duration, Instant, sleep},
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_polled_when_it_was_woken_and_not_for_others() {
        let n_polls = AtomicUsize::new(0);
        let (send, mut receive) = oneshot::channel();
        let seldom = Seldom::new(std::future::poll_fn(|context| {
            n_polls.fetch_add(1, Ordering::Relaxed);
            Pin::new(&mut receive).poll(context)
        }));
        let mut seldom = std::pin::pin!(seldom);
        let mut busy = tokio::time::interval(Duration::from_millis(1));
        for _ in 0..50 {
            tokio::select! {
                biased;
                _ = busy.tick() => {}
                _ = seldom.as_mut() => panic!("nothing was sent"),
            }
        }
        assert_eq!(n_polls.load(Ordering::Relaxed), 1);
        send.send(7).unwrap();
        assert_eq!(seldom.await.unwrap(), 7);
        assert_eq!(n_polls.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_waits_for_nothing_else_is_woken() {
        let began = Instant::now();
        let waiting = tokio::spawn(Seldom::new(Box::pin(sleep(Duration::from_secs(3)))));
        waiting.await.unwrap();
        assert_eq!(began.elapsed(), Duration::from_secs(3));
    }
}
