//! Bodies of answers: whole ones, and watches that can be cut.

use futures::{StreamExt, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use hyper::body::Bytes;
use kube::client::Body;
use tokio::sync::watch;

/// The body of an answer.
pub(super) type Answer = UnsyncBoxBody<Bytes, anyhow::Error>;

/// A body that ends, cleanly, with the next cut.
pub(super) fn cuttable(body: Body, mut cuts: watch::Receiver<u64>) -> Answer {
    cuts.mark_unchanged();
    let frames = StreamExt::boxed(BodyStream::new(body.map_err(anyhow::Error::from)));
    let cut = stream::unfold((frames, cuts), |(mut frames, mut cuts)| async move {
        tokio::select! {
            biased;
            _ = cuts.changed() => None,
            frame = frames.next() => frame.map(|frame| (frame, (frames, cuts))),
        }
    });
    BodyExt::boxed_unsync(StreamBody::new(cut))
}
