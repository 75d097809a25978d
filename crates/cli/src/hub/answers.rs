//! Whether the hub answers a watch. A watch that is restored says nothing before the next change, so its events alone do not tell.

use kube::Client;
use tokio::sync::watch;

/// Tells when the hub has accepted a request, which is either a page of a list or a watch.
#[derive(Debug)]
pub struct Answers(watch::Receiver<u64>);

impl Answers {
    /// A client with the same connection, and the answers to its requests.
    #[must_use]
    pub fn of(client: &Client) -> (Client, Answers) {
        let (sender, answers) = Answers::channel();
        let (client, namespace) = (client.clone(), client.default_namespace().to_owned());
        let service = tower::service_fn(move |request| {
            let (client, sender) = (client.clone(), sender.clone());
            async move {
                let response = client.send(request).await;
                if response
                    .as_ref()
                    .is_ok_and(|response| response.status().is_success())
                {
                    sender.send_modify(|answers| *answers += 1);
                }
                response
            }
        });
        (Client::new(service, namespace), answers)
    }

    /// Answers, and where to count them.
    pub(crate) fn channel() -> (watch::Sender<u64>, Answers) {
        let (sender, receiver) = watch::channel(0);
        (sender, Answers(receiver))
    }

    /// Forgets the answers so far, because a request has failed since.
    pub fn forget(&mut self) {
        self.0.mark_unchanged();
    }

    /// Waits for an answer that is not forgotten. There is none any more once the client is gone.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use http::{Request, Response, StatusCode};
    use kube::client::Body;
    use tokio::time::timeout;

    use super::*;

    async fn is_told(answers: &mut Answers) -> bool {
        timeout(Duration::from_millis(50), answers.next()).await.is_ok()
    }

    #[tokio::test]
    async fn only_an_accepted_request_is_an_answer_and_only_once() {
        let accepts = Arc::new(AtomicBool::new(false));
        let of_hub = Arc::clone(&accepts);
        let hub = tower::service_fn(move |_: Request<Body>| {
            let status = if of_hub.load(Ordering::Relaxed) {
                StatusCode::OK
            } else {
                StatusCode::FORBIDDEN
            };
            let mut response = Response::new(Body::empty());
            *response.status_mut() = status;
            std::future::ready(Ok::<_, Infallible>(response))
        });
        let (client, mut answers) = Answers::of(&Client::new(hub, "upgrades"));
        assert_eq!(client.default_namespace(), "upgrades");
        client.send(Request::new(Body::empty())).await.unwrap();
        assert!(!is_told(&mut answers).await);
        accepts.store(true, Ordering::Relaxed);
        client.send(Request::new(Body::empty())).await.unwrap();
        assert!(is_told(&mut answers).await);
        assert!(!is_told(&mut answers).await);
        client.send(Request::new(Body::empty())).await.unwrap();
        answers.forget();
        assert!(!is_told(&mut answers).await);
    }
}
